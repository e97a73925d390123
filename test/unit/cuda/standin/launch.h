#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "clique.h"
#include "settings.h"

namespace standin {

/// A communicator, as one rank has it. Its atomics order nothing: what a launch has written is for
/// those who wait for the stream.
struct Comm {
  Clique* clique = nullptr;
  int rank = 0;
  int size = 0;
  std::uint64_t launches = 0;
  /// How long a launch waits for a peer before it is an error that names the peer; 0: for ever, as
  /// NCCL does. The environment's STANDIN_NCCL_PATIENCE, in seconds.
  std::chrono::duration<double> patience{0};
  std::atomic<int> under_way = 0;
  std::atomic<bool> aborted = false;
  std::atomic<int> error = 0;  ///< of this rank alone
};

enum class Kind : std::uint32_t { group, all_gather };

/// One direction of what a launch moves between this rank and a peer, which may be itself.
struct Transfer {
  int peer = 0;
  std::byte* data = nullptr;  ///< read by a send
  std::size_t bytes = 0;
  std::size_t done = 0;
};

/// A call, or the calls of a group. NCCL is stricter than it says, and tutti simpler than it must
/// be: here every launch is one of all ranks, and the n-th launch of one rank meets the n-th of all
/// others. Launches that differ are named; NCCL would hang or mix up their data.
struct Launch {
  Comm* comm = nullptr;
  std::uint64_t number = 0;
  Kind kind = Kind::group;
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
  std::optional<Fault> fault;

  std::size_t bytes() const;
  /// Moves everything, on the stream's thread. Returns early if the communicator is aborted; with
  /// an error it waits for that, as NCCL's kernels do.
  void run();

 private:
  bool advance();
  bool send(Transfer& transfer) const;
  bool receive(Transfer& transfer) const;
  bool fits(const Chunk& chunk, const Transfer& transfer) const;
  void name_absent() const;
};

}  // namespace standin
