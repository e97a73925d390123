#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "base/cache_line.h"
#include "net/bytes.h"

namespace tutti::net {

/// The cursors of a ByteRing. They lie in shared memory. All zeros is an empty ring. Each word has
/// one writer and a cache line of its own, except `starved`, which both ends write.
struct RingCursors {
  alignas(base::cache_line) std::atomic<std::uint64_t> written{0};
  alignas(base::cache_line) std::atomic<std::uint64_t> taken{0};
  /// A writer sets it if it found no room and wants to be woken when there is some.
  alignas(base::cache_line) std::atomic<std::uint32_t> starved{0};
};

/// A ring buffer in shared memory: a stream of bytes from one writer to one reader. The ends may be
/// different threads or processes. A plain view: copies refer to the same ring.
class ByteRing {
 public:
  /// The size of `room` is a power of two.
  ByteRing(RingCursors& cursors, std::span<std::byte> room) : cursors_(&cursors), room_(room) {}

  /// Writer: writes as much as fits and returns how much that was.
  std::size_t write(ConstBytes bytes);
  /// Writer: asks to be woken when there is room. Returns false if there is room now; then write
  /// on.
  bool ask_for_room();

  bool empty() const;
  /// Reader: the bytes that can be read, in two pieces because the ring wraps around. They stay
  /// until they are consumed. Throws `internal` if the other end has left impossible cursors.
  std::array<ConstBytes, 2> readable() const;
  void consume(std::size_t count);
  /// Reader, after consuming: whether the writer must be woken. Returns true once for each request.
  bool take_request_for_room();

 private:
  std::size_t room_left() const;
  std::size_t place(std::uint64_t cursor) const { return cursor & (room_.size() - 1); }

  RingCursors* cursors_;
  std::span<std::byte> room_;
};

}  // namespace tutti::net
