#pragma once
#include <cstddef>

namespace tutti::shm {

/// The number of bytes of a cache on which its processors can count. That is the whole cache. It is
/// less if the cache is so large for so few processors that others, such as the neighbours of a
/// virtual machine, must use it, too.
std::size_t usable_cache(std::size_t cache_bytes, std::size_t processors);

/// Does the same for the largest cache that this machine's processors share (for one if there are
/// several), or returns a common size if the machine does not tell. Any thread may call it. The
/// first call takes a few milliseconds.
std::size_t shared_cache_bytes();

}  // namespace tutti::shm
