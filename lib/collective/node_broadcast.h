#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "collective/batch.h"
#include "mpi/communicator.h"

namespace tutti::collective {

/// Carries one chunk of a broadcast from a rank of the root's node to a rank of every other node,
/// message by message: each is passed on as soon as it is here. Along a chain (every link carries
/// each byte once) where other chunks follow or the chunk has many messages, else in a binomial
/// tree, which has fewer steps. One thread at a time drives it; nothing blocks.
class NodeBroadcast {
 public:
  /// `stream` keeps broadcasts that are under way together apart.
  NodeBroadcast(const mpi::Communicator& communicator, int stream);

  /// `stops`: the ranks that carry, one a node, the root's first; this one is `stops[me]`. The
  /// first has the data; the others get it into the same memory. It stays in place until `sent`.
  /// `alone`: no other chunk follows. All stops say the same.
  void start(const std::vector<int>& stops, std::size_t me, bool alone, std::span<std::byte> chunk);
  /// The data is here. Drives the transfer.
  bool poll_arrived();
  /// ... and has been passed on. Drives the transfer.
  bool poll_sent();
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::string describe() const;

 private:
  std::size_t choose_children(const std::vector<int>& stops, std::size_t me, bool chain);
  void pass_on();
  std::size_t messages() const;
  std::span<std::byte> message(std::size_t index) const;

  mpi::Requests requests_;
  const int tag_;
  std::span<std::byte> chunk_;
  std::vector<int> children_;
  std::vector<mpi::Requests::Id> receives_;  ///< of all messages; none at the first stop
  std::size_t here_ = 0;                     ///< messages that are here, and on their way on
  std::vector<mpi::Requests::Id> sends_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace tutti::collective
