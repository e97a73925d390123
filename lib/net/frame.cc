#include "net/frame.h"

#include <fmt/format.h>
#include <sodium/crypto_onetimeauth.h>
#include <sodium/crypto_stream_chacha20.h>

#include "base/failure.h"
#include "net/cipher_stream.h"
#include "tutti/error.h"

namespace tutti::net {
namespace {

constexpr std::size_t frame_length_bytes = 4;

static_assert(secret_bytes == crypto_stream_chacha20_ietf_KEYBYTES);
static_assert(mac_bytes == crypto_onetimeauth_BYTES);

Mac frame_mac(const Secret& key, std::uint64_t number, ConstBytes payload) {
  std::byte nonce[crypto_stream_chacha20_ietf_NONCEBYTES] = {};
  store_u64(nonce, number);
  std::byte once[crypto_onetimeauth_KEYBYTES];
  crypto_stream_chacha20_ietf(as_unsigned(once), sizeof once, as_unsigned(nonce),
                              as_unsigned(key.data()));
  Mac mac;
  crypto_onetimeauth(as_unsigned(mac.data()), as_unsigned(payload.data()), payload.size(),
                     as_unsigned(once));
  return mac;
}

[[noreturn]] void refuse(std::uint64_t number) {
  throw Error(ErrorCode::internal, fmt::format("frame {} is not authentic", number));
}

}  // namespace

FrameSealer::FrameSealer(const FrameKey& key) : key_(key.key) {
  if (key.encrypts) cipher_ = std::make_unique<CipherStream>(key.key);
}
FrameSealer::~FrameSealer() = default;
FrameSealer::FrameSealer(FrameSealer&&) noexcept = default;

std::size_t FrameSealer::seal(Slice payload, SliceQueue& wire) {
  base::check(payload.bytes.size() <= max_frame_payload, "a payload fits into a frame");
  const auto memory = memory_.take();
  std::size_t size = payload.bytes.size();
  if (cipher_) {
    encipher(payload.bytes, *memory);
    size = 0;
  } else {
    append_u32(*memory, static_cast<std::uint32_t>(size));
    append(*memory, frame_mac(key_, number_, payload.bytes));
  }
  size += memory->size();
  wire.push_back({*memory, memory});
  if (!cipher_) wire.push_back(std::move(payload));
  ++number_;
  return size;
}

/// Enciphers the whole frame. Before the first one it writes the stream's header.
void FrameSealer::encipher(ConstBytes payload, Bytes& frame) {
  if (!cipher_->has_begun()) {
    frame.resize(CipherStream::header_bytes);
    cipher_->begin_sending(frame);
  }
  std::byte length[frame_length_bytes];
  store_u32(length, static_cast<std::uint32_t>(payload.size()));
  append(frame, length);
  const std::size_t size = payload.size() + CipherStream::overhead;
  frame.resize(frame.size() + size);
  cipher_->encipher(payload, length, std::span(frame).last(size));
}

FrameOpener::FrameOpener(const FrameKey& key) : key_(key.key) {
  if (key.encrypts) cipher_ = std::make_unique<CipherStream>(key.key);
}
FrameOpener::~FrameOpener() = default;
FrameOpener::FrameOpener(FrameOpener&&) noexcept = default;

/// The bytes that follow the length of the next frame. Empty if the frame is incomplete.
ConstBytes FrameOpener::frame_of(std::size_t length, std::size_t overhead) const {
  if (length > max_frame_payload) {
    throw Error(ErrorCode::internal, fmt::format("a frame has {} bytes, but may have at most {}",
                                                 length, max_frame_payload));
  }
  const ConstBytes wire = wire_.rest().subspan(frame_length_bytes);
  return wire.size() < overhead + length ? ConstBytes() : wire.first(overhead + length);
}

std::optional<ConstBytes> FrameOpener::next() {
  if (cipher_) return next_deciphered();
  const ConstBytes rest = wire_.rest();
  if (rest.size() < frame_length_bytes) return std::nullopt;
  const ConstBytes frame = frame_of(load_u32(rest.data()), mac_bytes);
  if (frame.empty()) return std::nullopt;
  const ConstBytes payload = frame.subspan(mac_bytes);
  check(rest.first(frame_header_bytes), payload);
  wire_.use(frame_length_bytes + frame.size());
  return payload;
}

void FrameOpener::check(ConstBytes header, ConstBytes payload) {
  const bool is_whole = load_u32(header.data()) == payload.size();
  const ConstBytes said = header.subspan(frame_length_bytes, mac_bytes);
  if (!is_whole || !equal(frame_mac(key_, number_, payload), said)) refuse(number_);
  ++number_;
}

std::optional<ConstBytes> FrameOpener::next_deciphered() {
  if (!cipher_->has_begun()) {
    if (wire_.rest().size() < CipherStream::header_bytes) return std::nullopt;
    if (!cipher_->begin_receiving(wire_.rest().first(CipherStream::header_bytes))) refuse(number_);
    wire_.use(CipherStream::header_bytes);
  }
  if (wire_.rest().size() < frame_length_bytes) return std::nullopt;
  const ConstBytes clear = wire_.rest().first(frame_length_bytes);
  const std::size_t length = load_u32(clear.data());
  const ConstBytes frame = frame_of(length, CipherStream::overhead);
  if (frame.empty()) return std::nullopt;
  plain_.resize(length);
  if (!cipher_->decipher(frame, clear, plain_)) refuse(number_);
  ++number_;
  wire_.use(frame_length_bytes + frame.size());
  return plain_;
}

}  // namespace tutti::net
