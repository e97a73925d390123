#pragma once
#include <cstddef>

namespace tutti::base {

/// The bytes of a cache line. Words that different ranks write lie at least this far apart, which
/// avoids false sharing.
inline constexpr std::size_t cache_line = 64;

}  // namespace tutti::base
