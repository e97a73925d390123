#pragma once
#include <cstddef>

namespace tutti::shm {

/// Bytes of the largest cache that processors of this machine share, one of them where there are
/// several; a common size where the machine does not tell. Any thread; looks once, a few
/// milliseconds.
std::size_t shared_cache_bytes();

}  // namespace tutti::shm
