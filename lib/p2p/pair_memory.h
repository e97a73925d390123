#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/cache_line.h"
#include "base/doorbell.h"
#include "base/fd.h"
#include "base/mapping.h"
#include "net/byte_ring.h"

namespace tutti::p2p {

/// The memory through which the ranks of a node pass frames and elements. It has two rings for each
/// pair of ranks in each direction. A new memory of zeros is valid. The pages of a ring are
/// reserved when its writer first uses it.
class PairMemory {
 public:
  static constexpr std::size_t frame_ring_bytes = 4096;
  static constexpr std::size_t data_ring_bytes = std::size_t{128} << 10;

  static std::size_t bytes(int local_size);
  /// The size of the part that every rank reads and writes from the beginning. The first rank
  /// reserves it.
  static std::size_t head_bytes(int local_size);

  /// `doorbells` holds those of the node's ranks, by local index. They outlive this object. Throws
  /// `internal` if the file is smaller than `bytes`.
  PairMemory(base::Fd file, const base::Mapper& map, int local_index,
             std::vector<base::Doorbell*> doorbells);

  int local_size() const { return static_cast<int>(doorbells_.size()); }
  int local_index() const { return local_index_; }

  /// Reserve a ring from this rank to another one. Both throw `internal` if there is not enough
  /// memory, and do nothing if the ring is already reserved.
  void reserve_frames(int to);
  void reserve_data(int to);
  std::size_t reserved_bytes() const { return reserved_bytes_; }
  net::ByteRing frames(int from, int to) const;
  net::ByteRing data(int from, int to) const;

  /// The number of times that a rank has left a frame for this rank.
  std::uint64_t mail() const;
  /// Counts a frame that was left for that rank, and wakes the rank.
  void note_mail(int to) const;
  void ring(int local) const { doorbells_[static_cast<std::size_t>(local)]->ring(); }

 private:
  struct Mail {
    alignas(base::cache_line) std::atomic<std::uint64_t> count{0};
  };
  struct Cursors {
    net::RingCursors frames;
    net::RingCursors data;
  };

  void reserve(std::vector<bool>& has, int to, std::size_t begin, std::size_t count);
  std::size_t pair(int from, int to) const;
  std::size_t rings_at(int from, int to) const;
  Mail& mail_of(int local) const;
  Cursors& cursors(int from, int to) const;

  base::Fd file_;
  std::shared_ptr<base::Mapping> mapping_;
  int local_index_;
  std::vector<base::Doorbell*> doorbells_;
  std::vector<bool> has_frames_;  ///< by local index
  std::vector<bool> has_data_;
  std::size_t reserved_bytes_ = 0;
};

}  // namespace tutti::p2p
