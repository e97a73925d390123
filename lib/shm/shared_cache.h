#pragma once
#include <cstddef>

namespace tutti::shm {

/// How many bytes of a cache the processors that share it can count on. It is the whole cache, or
/// less if the cache is so large for so few that others must use it too, such as the neighbours of
/// a virtual machine.
std::size_t usable_cache(std::size_t cache_bytes, std::size_t processors);

/// The same for the largest cache that this machine's processors share (for one if there are
/// several), or a common size if the machine does not tell. Any thread may call it; the first call
/// takes a few milliseconds.
std::size_t shared_cache_bytes();

}  // namespace tutti::shm
