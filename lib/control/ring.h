#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace tutti::control {

/// A stream of bytes in shared memory from one writer to one reader. All zeros is an empty ring.
struct Ring {
  static constexpr std::size_t capacity = std::size_t{1} << 16;

  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
  /// The writer has more than fits and wants to be woken when there is room.
  std::atomic<std::uint32_t> writer_waits{0};
  alignas(64) std::byte bytes[capacity];
};

/// Puts whole messages into a ring. What does not fit is kept and goes with a later `flush`.
/// One thread owns it.
class RingWriter {
 public:
  explicit RingWriter(Ring& ring) : ring_(&ring) {}
  /// Never blocks. True when the reader has something new to look at.
  bool send(std::span<const std::byte> message);
  bool flush();

 private:
  Ring* ring_;
  std::deque<std::byte> backlog_;
};

/// Takes whole messages out of a ring. One thread owns it.
class RingReader {
 public:
  explicit RingReader(Ring& ring) : ring_(&ring) {}
  /// The next message, if all of it is there. Never blocks. Throws `internal` for a length that no
  /// writer of ours announces.
  bool receive(std::vector<std::byte>& message);
  /// Since the last call, room was made that the writer waits for: wake it.
  bool writer_wants_waking();

 private:
  void drain();

  Ring* ring_;
  std::vector<std::byte> partial_;
  std::size_t taken_ = 0;  ///< of `partial_`, by messages given out already
  bool made_room_ = false;
};

}  // namespace tutti::control
