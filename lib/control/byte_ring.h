#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "base/cache_line.h"
#include "control/bytes.h"

namespace tutti::control {

/// Where the two ends of a ByteRing are; lies in shared memory, all zeros is an empty ring. Each
/// word has one writer and a cache line of its own, `starved` excepted.
struct RingCursors {
  alignas(base::cache_line) std::atomic<std::uint64_t> written{0};
  alignas(base::cache_line) std::atomic<std::uint64_t> taken{0};
  /// The writer found no room and wants to be woken when there is some.
  alignas(base::cache_line) std::atomic<std::uint32_t> starved{0};
};

/// A stream of bytes from one writer to one reader, through shared memory; each end may be another
/// thread or another process. A plain view: copies are the same ring.
class ByteRing {
 public:
  /// The size of `room` is a power of two.
  ByteRing(RingCursors& cursors, std::span<std::byte> room) : cursors_(&cursors), room_(room) {}

  /// Writer: takes as much as fits, returns how much that was.
  std::size_t write(ConstBytes bytes);
  /// Writer: asks to be woken when there is room. False: there is room now, write on.
  bool ask_for_room();

  bool empty() const;
  /// Reader: what is there, in two pieces because the ring wraps around. It stays until consumed.
  /// Throws `internal` when the other end left cursors that cannot be.
  std::array<ConstBytes, 2> readable() const;
  void consume(std::size_t count);
  /// Reader, after consuming: whether the writer has to be woken. Answers true once per request.
  bool take_request_for_room();

 private:
  std::size_t room_left() const;
  std::size_t place(std::uint64_t cursor) const { return cursor & (room_.size() - 1); }

  RingCursors* cursors_;
  std::span<std::byte> room_;
};

}  // namespace tutti::control
