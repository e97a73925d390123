#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "collective/batch.h"
#include "mpi/communicator.h"

namespace tutti::collective {

/// Carries one chunk of a broadcast from a rank of the root's node to a rank of every other node:
/// along a chain when other chunks follow (every link carries each byte once), in a binomial tree
/// when it is the only one. One thread at a time drives it; nothing blocks.
class Relay {
 public:
  /// `stream` keeps relays that are under way together apart.
  Relay(const mpi::Communicator& communicator, int stream);

  /// `stops`: the ranks that carry, one a node, the root's first; this one is `stops[me]`. The
  /// first has the data; the others get it into the same memory. It stays in place until `sent`.
  void start(const std::vector<int>& stops, std::size_t me, bool chain, std::span<std::byte> chunk);
  /// The data is here. Drives the transfer.
  bool arrived();
  /// ... and has been passed on. Drives the transfer.
  bool sent();
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::string describe() const;

 private:
  void pass_on();

  mpi::Requests requests_;
  const int tag_;
  std::span<std::byte> chunk_;
  std::vector<int> children_;
  bool receiving_ = false;
  mpi::Requests::Id receive_ = 0;
  std::vector<mpi::Requests::Id> sends_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace tutti::collective
