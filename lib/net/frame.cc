#include "net/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/error.h"

namespace tutti::net {
namespace {

Mac frame_mac(const Secret& key, std::uint64_t number, ConstBytes payload) {
  std::byte raw[8];
  store_u32(raw, static_cast<std::uint32_t>(number));
  store_u32(raw + 4, static_cast<std::uint32_t>(number >> 32));
  return mac(key, {raw, payload});
}

}  // namespace

void FrameSealer::seal(ConstBytes payload, Bytes& wire) {
  while (!payload.empty()) {
    const ConstBytes piece = payload.first(std::min(payload.size(), max_frame_payload));
    append_u32(wire, static_cast<std::uint32_t>(piece.size()));
    append(wire, frame_mac(key_, number_++, piece));
    append(wire, piece);
    payload = payload.subspan(piece.size());
  }
}

std::optional<ConstBytes> FrameOpener::next() {
  const ConstBytes wire = wire_.rest();
  if (wire.size() < frame_header_bytes) return std::nullopt;
  const std::size_t length = load_u32(wire.data());
  if (length > max_frame_payload) {
    throw Error(ErrorCode::internal, fmt::format("a frame of {} bytes was refused; at most {}",
                                                 length, max_frame_payload));
  }
  if (wire.size() - frame_header_bytes < length) return std::nullopt;
  const ConstBytes payload = wire.subspan(frame_header_bytes, length);
  if (!equal(frame_mac(key_, number_, payload), wire.subspan(4, mac_bytes))) {
    throw Error(ErrorCode::internal,
                fmt::format("frame {} was refused: it is not authentic", number_));
  }
  ++number_;
  wire_.use(frame_header_bytes + length);
  return payload;
}

}  // namespace tutti::net
