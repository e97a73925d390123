#include "python/releases.h"

#include <atomic>

namespace tutti::python {
namespace {

std::atomic<Arrays*> released{nullptr};
std::atomic<bool> interpreter_ends{false};

int drop_soon(void* /*unused*/) {
  drop_released();
  return 0;
}

/// Any thread, with or without the GIL. The main thread drops the arrays between two of its
/// instructions, unless another thread calls tutti first.
void release(Arrays* arrays) {
  Arrays* before = released.load(std::memory_order_relaxed);
  do {
    arrays->next = before;
  } while (!released.compare_exchange_weak(before, arrays, std::memory_order_release,
                                           std::memory_order_relaxed));
  // From here on `arrays` may be gone. The first of a list asks for all of it. Where the
  // interpreter cannot note it down, the next call of tutti drops them.
  if (before == nullptr && !interpreter_ends) Py_AddPendingCall(drop_soon, nullptr);
}

}  // namespace

std::shared_ptr<Arrays> make_arrays() {
  return {new Arrays, release};
}

void drop_released() {
  if (released.load(std::memory_order_relaxed) == nullptr) return;
  Arrays* first = released.exchange(nullptr, std::memory_order_acquire);
  while (first != nullptr) {
    const std::unique_ptr<Arrays> arrays(first);
    first = arrays->next;
  }
}

void stop_dropping() {
  interpreter_ends = true;
}

}  // namespace tutti::python
