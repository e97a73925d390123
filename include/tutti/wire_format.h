#pragma once
#include <cstdint>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

/// The format in which f32 tensors travel between nodes. With `none` they travel as f32.
enum class WireFormat : std::uint8_t { none, fp16, bf16 };

/// The name by which `KVStore::set_gradient_compression` takes the format: "none", "fp16" or
/// "bf16".
TUTTI_EXPORT std::string_view name(WireFormat format);

}  // namespace tutti
