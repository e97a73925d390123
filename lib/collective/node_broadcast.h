#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "collective/batch.h"
#include "mpi/communicator.h"

namespace tutti::collective {

/// Broadcast of one chunk between nodes, to one rank of each. A message is forwarded as soon as it
/// has arrived. The ranks form a chain if more chunks follow or the chunk has many messages, for
/// then each link carries each byte once; else a binomial tree, which has fewer steps.
/// One thread at a time drives it; nothing blocks.
class NodeBroadcast {
 public:
  /// `stream` keeps broadcasts that are under way together apart.
  NodeBroadcast(const mpi::Communicator& communicator, int stream);

  /// `stops`: one rank of each node, the root's first; this one is `stops[me]`. `chunk` holds the
  /// data on the first stop and receives it on the others; it stays in place until `poll_sent`.
  /// `alone`: no other chunk follows. Equal on all stops but for `me` and `chunk`.
  void start(const std::vector<int>& stops, std::size_t me, bool alone, std::span<std::byte> chunk);
  /// Drives the transfer. True once the whole chunk is here.
  bool poll_arrived();
  /// Drives the transfer. True once the whole chunk is here and has been forwarded.
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
  std::size_t here_ = 0;                     ///< messages that have arrived and are being forwarded
  std::vector<mpi::Requests::Id> sends_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace tutti::collective
