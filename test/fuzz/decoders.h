#pragma once
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <span>
#include <type_traits>

#include "tutti/error.h"

/// What reads bytes that come from outside this process, for libFuzzer.
namespace tutti::fuzz {

using Bytes = std::span<const std::byte>;
/// Decodes the bytes; whatever they are, it returns.
using Decoder = void (*)(Bytes bytes);

/// Those of one program. An input's first byte chooses which of them reads the rest.
std::span<const Decoder> decoders();

/// What `read` makes of the bytes; nothing where it refuses them, as it may, with this code.
template <typename Read>
auto accepted(const Read& read, ErrorCode refusal = ErrorCode::internal)
    -> std::optional<std::invoke_result_t<Read>> {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != refusal) std::abort();
    return std::nullopt;
  }
}

}  // namespace tutti::fuzz
