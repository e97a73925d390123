#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace tutti::control {

/// Longer messages and frames are refused before memory is taken for them.
inline constexpr std::size_t longest_message = std::size_t{64} << 20;

/// Who a message is from (upwards) or for (downwards).
inline constexpr std::int32_t to_everyone = -1;

struct Letter {
  std::int32_t rank = to_everyone;
  std::vector<std::byte> message;
};

/// One direction of a link: turns letters into authenticated frames. A frame carries its length,
/// the letters and a MAC over its number, so that frames can be neither forged, altered, repeated
/// nor swapped. A frame without letters is a heartbeat; `farewell` says that the end is no death.
using SessionKey = std::array<std::byte, 32>;

class FrameWriter {
 public:
  explicit FrameWriter(const SessionKey& key) : key_(key) {}
  void add(std::int32_t rank, std::span<const std::byte> message);
  /// Ends a frame with what was added since the last one.
  void seal(bool farewell = false);
  /// What is to be sent; `sent` forgets its beginning.
  std::span<const std::byte> outgoing() const;
  void sent(std::size_t bytes);
  bool empty() const { return outgoing().empty(); }

 private:
  SessionKey key_;
  std::uint64_t number_ = 0;
  std::vector<std::byte> body_;
  std::vector<std::byte> out_;
  std::size_t out_begin_ = 0;
};

class FrameReader {
 public:
  explicit FrameReader(const SessionKey& key) : key_(key) {}
  void feed(std::span<const std::byte> bytes);
  /// Letters of all whole frames so far. Throws `internal` for a frame that our peer did not send.
  std::vector<Letter> take();
  bool said_farewell() const { return farewell_; }

 private:
  SessionKey key_;
  std::uint64_t number_ = 0;
  bool farewell_ = false;
  std::vector<std::byte> in_;
};

/// Keys of both directions of one connection, from the job's secret and a nonce of each side.
SessionKey session_key(const std::string& secret, const std::string& direction,
                       std::span<const std::byte> nonces);

}  // namespace tutti::control
