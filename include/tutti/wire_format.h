#pragma once
#include <cstdint>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

/// The format in which f32 tensors travel between nodes. `none`: f32 itself.
enum class WireFormat : std::uint8_t { none, fp16, bf16 };

/// "none", "fp16" or "bf16": what `KVStore::set_gradient_compression` takes.
TUTTI_EXPORT std::string_view name(WireFormat format);

}  // namespace tutti
