#pragma once
// The parts that both directions of the wire format share. Only wire*.cc include this file.
#include <cstddef>

namespace tutti::ps {

/// The bytes before the table: its length in four bytes, and four bytes of zeros that align it.
inline constexpr std::size_t head_bytes = 8;

}  // namespace tutti::ps
