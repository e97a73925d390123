#include "python/releases.h"

#include <atomic>

#include "tutti/quick_deleter.h"

namespace tutti::python {
namespace {

std::atomic<HeldArrays*> released{nullptr};
/// Whether the interpreter is going to call `drop_soon`.
std::atomic<bool> asked{false};
std::atomic<bool> interpreter_ends{false};

int drop_soon(void* /*unused*/) {
  // This comes first. Memory that is released from here on makes a new request.
  asked = false;
  drop_released();
  return 0;
}

/// Any thread may call this, with or without the GIL. The main thread drops the arrays between two
/// of its instructions, unless another thread calls tutti first.
void release(void* released_arrays) noexcept {
  auto* const arrays = static_cast<HeldArrays*>(released_arrays);
  HeldArrays* before = released.load(std::memory_order_relaxed);
  do {
    arrays->next = before;
  } while (!released.compare_exchange_weak(before, arrays, std::memory_order_release,
                                           std::memory_order_relaxed));
  // From here on `arrays` may no longer exist. If the interpreter has no room for the request, the
  // next release asks again.
  if (interpreter_ends || asked.exchange(true)) return;
  if (Py_AddPendingCall(drop_soon, nullptr) != 0) asked = false;
}

}  // namespace

std::shared_ptr<HeldArrays> make_arrays() {
  auto* const arrays = new HeldArrays;
  return {arrays, QuickDeleter{release, arrays}};
}

void drop_released() {
  if (released.load(std::memory_order_relaxed) == nullptr) return;
  HeldArrays* first = released.exchange(nullptr, std::memory_order_acquire);
  while (first != nullptr) {
    const std::unique_ptr<HeldArrays> arrays(first);
    first = arrays->next;
  }
}

void stop_dropping() {
  interpreter_ends = true;
}

}  // namespace tutti::python
