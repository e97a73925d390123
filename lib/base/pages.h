#pragma once
#include <unistd.h>

#include <cstddef>

namespace tutti::base {

/// The bytes of a page of memory: a power of two.
inline std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

/// `bytes` rounded up to whole pages.
inline std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page_bytes() - 1) & ~(page_bytes() - 1);
}

}  // namespace tutti::base
