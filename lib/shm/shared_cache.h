#pragma once
#include <cstddef>

namespace tutti::shm {

/// What these processors can count on of the largest cache that they share, in bytes: all of it, or
/// less where it is so large for so few that others must share it, too, as those of a virtual
/// machine share it with their neighbours.
std::size_t usable_cache(std::size_t cache_bytes, std::size_t processors);

/// That of this machine's processors, of one such cache where there are several; a common size
/// where the machine does not tell. Any thread; looks once, a few milliseconds.
std::size_t shared_cache_bytes();

}  // namespace tutti::shm
