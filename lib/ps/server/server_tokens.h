#pragma once
#include <cstdint>

namespace tutti::ps {

// Tokens of epoll events. A worker's rank is the token of its connection. These are larger.
inline constexpr std::uint64_t scheduler_token = std::uint64_t{1} << 32;
inline constexpr std::uint64_t reception_token = scheduler_token + 1;
inline constexpr std::uint64_t near_reception_token = scheduler_token + 2;
inline constexpr std::uint64_t writer_token = scheduler_token + 3;

}  // namespace tutti::ps
