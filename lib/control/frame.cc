#include "control/frame.h"

#include <sodium.h>

#include <cstring>

#include "tutti/error.h"

namespace tutti::control {
namespace {

constexpr std::size_t mac_bytes = 16;
/// length (4), kind (1), then letters, then the MAC.
constexpr std::size_t head_bytes = 5;

using Mac = std::array<unsigned char, mac_bytes>;

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

Mac mac_of(const SessionKey& key, std::uint64_t number, std::span<const std::byte> frame) {
  crypto_generichash_state state;
  Mac mac;
  crypto_generichash_init(&state, raw(key.data()), key.size(), mac.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&number), sizeof number);
  crypto_generichash_update(&state, raw(frame.data()), frame.size());
  crypto_generichash_final(&state, mac.data(), mac.size());
  return mac;
}

template <typename T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

template <typename T>
T read_at(std::span<const std::byte> from, std::size_t offset) {
  T value;
  std::memcpy(&value, from.data() + offset, sizeof value);
  return value;
}

Error refused(const char* why) {
  return {ErrorCode::internal, std::string("a control frame was refused: ") + why};
}

std::vector<Letter> letters_in(std::span<const std::byte> body) {
  std::vector<Letter> letters;
  while (!body.empty()) {
    if (body.size() < 8) throw refused("a letter is cut off");
    const auto rank = read_at<std::int32_t>(body, 0);
    const auto length = read_at<std::uint32_t>(body, 4);
    if (length > body.size() - 8) throw refused("a letter is longer than its frame");
    const auto message = body.subspan(8, length);
    letters.push_back({rank, {message.begin(), message.end()}});
    body = body.subspan(8 + length);
  }
  return letters;
}

}  // namespace

void FrameWriter::add(std::int32_t rank, std::span<const std::byte> message) {
  append(body_, rank);
  append(body_, static_cast<std::uint32_t>(message.size()));
  body_.insert(body_.end(), message.begin(), message.end());
}

void FrameWriter::seal(bool farewell) {
  const std::size_t begin = out_.size();
  append(out_, static_cast<std::uint32_t>(body_.size()));
  append(out_, static_cast<std::uint8_t>(farewell ? 1 : 0));
  out_.insert(out_.end(), body_.begin(), body_.end());
  const Mac mac = mac_of(key_, number_++, std::span(out_).subspan(begin));
  append(out_, mac);
  body_.clear();
}

std::span<const std::byte> FrameWriter::outgoing() const {
  return std::span(out_).subspan(out_begin_);
}

void FrameWriter::sent(std::size_t bytes) {
  out_begin_ += bytes;
  if (out_begin_ < out_.size()) return;
  out_.clear();
  out_begin_ = 0;
}

void FrameReader::feed(std::span<const std::byte> bytes) {
  in_.insert(in_.end(), bytes.begin(), bytes.end());
}

std::vector<Letter> FrameReader::take() {
  std::vector<Letter> letters;
  std::size_t used = 0;
  for (;;) {
    const auto rest = std::span<const std::byte>(in_).subspan(used);
    if (rest.size() < head_bytes) break;
    const auto length = read_at<std::uint32_t>(rest, 0);
    if (length > longest_message) throw refused("it claims to be too long");
    if (rest.size() < head_bytes + length + mac_bytes) break;
    const Mac mac = mac_of(key_, number_++, rest.first(head_bytes + length));
    if (sodium_memcmp(mac.data(), rest.data() + head_bytes + length, mac_bytes) != 0) {
      throw refused("it is not authentic");
    }
    farewell_ = farewell_ || rest[4] != std::byte{0};
    for (Letter& letter : letters_in(rest.subspan(head_bytes, length))) {
      letters.push_back(std::move(letter));
    }
    used += head_bytes + length + mac_bytes;
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(used));
  return letters;
}

SessionKey session_key(const std::string& secret, const std::string& direction,
                       std::span<const std::byte> nonces) {
  SessionKey key;
  crypto_generichash_state state;
  crypto_generichash_init(&state, reinterpret_cast<const unsigned char*>(secret.data()),
                          secret.size(), key.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(direction.data()),
                            direction.size());
  crypto_generichash_update(&state, raw(nonces.data()), nonces.size());
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(key.data()), key.size());
  return key;
}

}  // namespace tutti::control
