#include "python/gil.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace tutti::python {
namespace {

std::atomic<bool> ending{false};
std::atomic<int> taking_back{0};
/// The thread that ends the interpreter; written before `ending`.
std::thread::id last_thread;

/// In a forked child the threads that were counted are not there.
[[maybe_unused]] const int forgets_them_in_child =
    ::pthread_atfork(nullptr, nullptr, [] { taking_back = 0; });

bool must_stay_out() {
  return ending && std::this_thread::get_id() != last_thread;
}

}  // namespace

WithoutGil::~WithoutGil() {
  // Counted before the question, so that whoever sets `ending` sees all that have not seen it.
  ++taking_back;
  if (must_stay_out()) {
    --taking_back;
    while (true) ::pause();
  }
  PyEval_RestoreThread(state_);
  --taking_back;
}

void keep_gil_until_the_end() {
  last_thread = std::this_thread::get_id();
  ending = true;
  while (taking_back > 0) {
    PyThreadState* const state = PyEval_SaveThread();
    std::this_thread::yield();
    PyEval_RestoreThread(state);
  }
}

}  // namespace tutti::python
