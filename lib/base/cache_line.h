#pragma once
#include <cstddef>

namespace tutti::base {

/// Bytes that processors fetch and own together. What two ranks write lies that far apart.
inline constexpr std::size_t cache_line = 64;

}  // namespace tutti::base
