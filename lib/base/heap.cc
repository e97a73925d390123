#include "base/heap.h"

#include <malloc.h>

namespace tutti::base {

void return_freed_memory() {
  ::malloc_trim(0);
}

}  // namespace tutti::base
