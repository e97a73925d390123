#include "net/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "net/cipher_stream.h"
#include "tutti/error.h"

namespace tutti::net {
namespace {

constexpr std::size_t length_bytes = 4;

Mac frame_mac(const Secret& key, std::uint64_t number, ConstBytes payload) {
  std::byte raw[8];
  store_u32(raw, static_cast<std::uint32_t>(number));
  store_u32(raw + 4, static_cast<std::uint32_t>(number >> 32));
  return mac(key, {raw, payload});
}

std::unique_ptr<CipherStream> cipher_of(const FrameKey& key) {
  return key.encrypts ? std::make_unique<CipherStream>(key.key) : nullptr;
}

[[noreturn]] void refuse(std::uint64_t number) {
  throw Error(ErrorCode::internal,
              fmt::format("frame {} was refused: it is not authentic", number));
}

}  // namespace

FrameSealer::FrameSealer(const FrameKey& key) : key_(key.key), cipher_(cipher_of(key)) {}
FrameSealer::~FrameSealer() = default;
FrameSealer::FrameSealer(FrameSealer&&) noexcept = default;

void FrameSealer::seal(ConstBytes payload, Bytes& wire) {
  while (!payload.empty()) {
    const ConstBytes piece = payload.first(std::min(payload.size(), max_frame_payload));
    seal_one(piece, wire);
    ++number_;
    payload = payload.subspan(piece.size());
  }
}

void FrameSealer::seal_one(ConstBytes piece, Bytes& wire) {
  if (cipher_ && !cipher_->has_begun()) {
    wire.resize(wire.size() + CipherStream::header_bytes);
    cipher_->begin_sending(std::span(wire).last(CipherStream::header_bytes));
  }
  std::byte length[length_bytes];
  store_u32(length, static_cast<std::uint32_t>(piece.size()));
  append(wire, length);
  if (cipher_) {
    const std::size_t size = piece.size() + CipherStream::overhead;
    wire.resize(wire.size() + size);
    cipher_->encipher(piece, length, std::span(wire).last(size));
  } else {
    append(wire, frame_mac(key_, number_, piece));
    append(wire, piece);
  }
}

FrameOpener::FrameOpener(const FrameKey& key) : key_(key.key), cipher_(cipher_of(key)) {}
FrameOpener::~FrameOpener() = default;
FrameOpener::FrameOpener(FrameOpener&&) noexcept = default;

/// What follows the length of the next frame; empty: it is incomplete.
ConstBytes FrameOpener::frame_of(std::size_t length, std::size_t overhead) const {
  if (length > max_frame_payload) {
    throw Error(ErrorCode::internal, fmt::format("a frame of {} bytes was refused; at most {}",
                                                 length, max_frame_payload));
  }
  const ConstBytes wire = wire_.rest().subspan(length_bytes);
  return wire.size() < overhead + length ? ConstBytes() : wire.first(overhead + length);
}

std::optional<ConstBytes> FrameOpener::next() {
  if (cipher_) return next_deciphered();
  if (wire_.rest().size() < length_bytes) return std::nullopt;
  const std::size_t length = load_u32(wire_.rest().data());
  const ConstBytes frame = frame_of(length, mac_bytes);
  if (frame.empty()) return std::nullopt;
  const ConstBytes payload = frame.subspan(mac_bytes);
  if (!equal(frame_mac(key_, number_, payload), frame.first(mac_bytes))) refuse(number_);
  ++number_;
  wire_.use(length_bytes + frame.size());
  return payload;
}

std::optional<ConstBytes> FrameOpener::next_deciphered() {
  if (!cipher_->has_begun()) {
    if (wire_.rest().size() < CipherStream::header_bytes) return std::nullopt;
    if (!cipher_->begin_receiving(wire_.rest().first(CipherStream::header_bytes))) refuse(number_);
    wire_.use(CipherStream::header_bytes);
  }
  if (wire_.rest().size() < length_bytes) return std::nullopt;
  const ConstBytes clear = wire_.rest().first(length_bytes);
  const std::size_t length = load_u32(clear.data());
  const ConstBytes frame = frame_of(length, CipherStream::overhead);
  if (frame.empty()) return std::nullopt;
  plain_.resize(length);
  if (!cipher_->decipher(frame, clear, plain_)) refuse(number_);
  ++number_;
  wire_.use(length_bytes + frame.size());
  return plain_;
}

}  // namespace tutti::net
