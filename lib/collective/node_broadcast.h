#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "collective/batch.h"
#include "mpi/communicator.h"

namespace tutti::collective {

/// Broadcast of one chunk between nodes, to one rank of each. A rank forwards a message as soon as
/// it has arrived. If more chunks follow or the chunk has many messages, the ranks form a chain,
/// because then each link carries each byte once. Otherwise they form a binomial tree, which has
/// fewer steps. One thread at a time drives it. Nothing blocks.
class NodeBroadcast {
 public:
  /// `stream` separates broadcasts that are under way at the same time.
  NodeBroadcast(const mpi::Communicator& communicator, int stream);

  /// `stops` holds one rank of each node, the root's first. This rank is `stops[me]`. `chunk` holds
  /// the data on the first stop, and receives it on the others. It keeps its address until
  /// `poll_sent`. `alone` says that no other chunk follows. All arguments except `me` and `chunk`
  /// are equal on all stops.
  void start(const std::vector<int>& stops, std::size_t me, bool alone, std::span<std::byte> chunk);
  /// Drives the transfer. Returns true once the whole chunk is here.
  bool poll_arrived();
  /// Drives the transfer. Returns true once the whole chunk is here and has been forwarded.
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
  std::vector<mpi::Requests::Id> receives_;  ///< for all messages; empty at the first stop
  std::size_t here_ = 0;                     ///< messages that have arrived and are being forwarded
  std::vector<mpi::Requests::Id> sends_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace tutti::collective
