#include "python/interruptible.h"

#include <vector>

namespace tutti::python {

void let_go(std::thread thread) {
  // Never destroyed: the process may end before they do. Guarded by the GIL.
  static auto* const threads = new std::vector<std::thread>;
  threads->push_back(std::move(thread));
}

}  // namespace tutti::python
