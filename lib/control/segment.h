#pragma once
#include <atomic>
#include <cstddef>
#include <memory>

#include "base/cache_line.h"
#include "base/doorbell.h"
#include "base/mapping.h"
#include "control/loss_slot.h"
#include "net/byte_ring.h"

namespace tutti::control {

/// The part of the control segment that belongs to one rank of the node.
struct RankSlot {
  base::Doorbell bell;
  /// The rank's tutti-link adds to it as long as it runs.
  alignas(base::cache_line) std::atomic<std::uint64_t> heartbeat{0};
  /// Set when the rank has left the store by agreement. From then on its end is no loss.
  std::atomic<std::uint32_t> departed{0};
  net::RingCursors up;    ///< from the rank to the collector of the node's messages
  net::RingCursors down;  ///< from the collector to the rank
};

/// The control segment of a node: doorbells, heartbeats, mailboxes and the node's loss. A new
/// segment of zeros is valid. Every rank of the node maps it.
class Segment {
 public:
  /// The size of a mailbox's ring buffer. A message may be larger, because it passes through the
  /// ring as a stream.
  static constexpr std::size_t ring_bytes = std::size_t{64} << 10;
  /// `size` is the number of ranks in the world.
  static std::size_t bytes(int local_size, int size);

  Segment(std::shared_ptr<base::Mapping> memory, int local_size, int size);

  int local_size() const { return local_size_; }
  RankSlot& slot(int local_index) const;
  net::ByteRing up(int local_index) const;
  net::ByteRing down(int local_index) const;
  LossSlot& loss() const;
  /// Not 0 when this rank of the world closes the store, as the node knows it.
  std::atomic<std::uint32_t>& closing(int rank) const;
  /// Not 0 while the thread that collects the node's messages sleeps or is about to sleep.
  std::atomic<std::uint32_t>& collector_sleeps() const;

 private:
  net::ByteRing ring(net::RingCursors& cursors, int index) const;

  std::shared_ptr<base::Mapping> memory_;
  int local_size_;
};

}  // namespace tutti::control
