#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "tutti/error.h"

/// The decoders of bytes that come from outside this process, for libFuzzer. Each program has some
/// decoders, and seeds, which are inputs that they accept.
namespace tutti::fuzz {

using Bytes = std::span<const std::byte>;

struct Decoder {
  /// Returns true if it accepts the bytes. It returns for any bytes.
  bool (*decode)(Bytes bytes);
  /// It holds no more memory than in proportion to its input, and so much.
  std::size_t spare = std::size_t{1} << 20;
};

/// Those of one program. An input's first byte chooses which of them reads the rest.
std::span<const Decoder> decoders();

struct Seed {
  std::uint8_t decoder = 0;
  std::vector<std::byte> bytes;
};
std::vector<Seed> seeds();

/// Prints what is wrong and aborts, which libFuzzer notices.
[[noreturn]] void fail(const std::string& why);

/// The result of `read` for the bytes. Nothing if it refuses them with one of these codes, as it
/// may.
template <typename Read>
auto accepted(const Read& read, std::initializer_list<ErrorCode> refusals = {ErrorCode::internal})
    -> std::optional<std::invoke_result_t<Read>> {
  try {
    return read();
  } catch (const Error& error) {
    for (const ErrorCode code : refusals) {
      if (error.code() == code) return std::nullopt;
    }
    fail("refused with another code: " + std::string(error.what()));
  }
}

/// If a message is accepted and sent on, it arrives unchanged.
template <auto decode>
bool read_message(Bytes bytes) {
  const auto message = accepted([&] { return decode(bytes); });
  if (!message) return false;
  const std::vector<std::byte> sent = encode(*message);
  if (encode(decode(sent)) != sent) fail("sent on, it arrives as another message");
  return true;
}

/// Seeds of messages, of each kind at least one.
template <typename Message>
void add_messages(std::vector<Seed>& to, std::uint8_t decoder,
                  const std::vector<Message>& messages) {
  std::vector<bool> has(std::variant_size_v<Message>);
  for (const Message& message : messages) {
    has[message.index()] = true;
    to.push_back({decoder, encode(message)});
  }
  for (std::size_t kind = 0; kind < has.size(); ++kind) {
    if (!has[kind]) fail("no seed is a message of kind " + std::to_string(kind));
  }
}

}  // namespace tutti::fuzz
