#pragma once
#include <cstdint>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

/// What travels between ranks for f32 tensors. `none`: f32 itself.
enum class WireFormat : std::uint8_t { none, fp16, bf16 };

/// "none", "fp16" or "bf16": what `KVStore::set_gradient_compression` takes.
TUTTI_EXPORT std::string_view name(WireFormat format);

}  // namespace tutti
