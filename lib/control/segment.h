#pragma once
#include <atomic>
#include <cstddef>
#include <memory>

#include "base/cache_line.h"
#include "base/doorbell.h"
#include "base/mapping.h"
#include "control/byte_ring.h"
#include "control/loss.h"

namespace tutti::control {

/// The part of the control segment that belongs to one rank of the node.
struct RankSlot {
  base::Doorbell bell;
  /// Counts up while the rank's tutti-link runs.
  alignas(base::cache_line) std::atomic<std::uint64_t> heartbeat{0};
  /// The rank has left the store by agreement: its end is no death from now on.
  std::atomic<std::uint32_t> departed{0};
  RingCursors up;    ///< from the rank to whoever collects the node's mail
  RingCursors down;  ///< and back
};

/// The node's control segment: doorbells, heartbeats, mailboxes and the node's loss. A memory file
/// of zeros is a valid fresh one. Every rank of the node maps it.
class Segment {
 public:
  /// Messages of any size stream through; this bounds what is on its way at once, per direction.
  static constexpr std::size_t ring_bytes = std::size_t{64} << 10;
  static std::size_t bytes(int local_size);

  Segment(std::shared_ptr<base::Mapping> memory, int local_size);

  int local_size() const { return local_size_; }
  RankSlot& slot(int local_index) const;
  ByteRing up(int local_index) const;
  ByteRing down(int local_index) const;
  LossSlot& loss() const;
  /// Set while the thread that collects the node's mail is about to sleep or sleeps.
  std::atomic<std::uint32_t>& collector_sleeps() const;

 private:
  ByteRing ring(RingCursors& cursors, int index) const;

  std::shared_ptr<base::Mapping> memory_;
  int local_size_;
};

}  // namespace tutti::control
