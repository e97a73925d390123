#include "base/heap.h"

#include <malloc.h>

namespace tutti::base {
namespace {

/// From here on a store's tables are some MiB.
constexpr std::size_t many_keys = 4096;

}  // namespace

void return_memory_of(std::size_t keys) {
  if (keys >= many_keys) ::malloc_trim(0);
}

}  // namespace tutti::base
