#include "python/interruptible.h"

#include <vector>

namespace tutti::python {

void let_go(std::thread thread) {
  // The threads are never destroyed, because the process may end before they do. The GIL guards the
  // list.
  static auto* const threads = new std::vector<std::thread>;
  threads->push_back(std::move(thread));
}

}  // namespace tutti::python
