#include "python/gil.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace tutti::python {
namespace {

std::atomic<bool> ending{false};
std::atomic<int> taking_back{0};
/// The thread that ends the interpreter. It is written before `ending`.
std::thread::id last_thread;

/// A forked child does not have the threads that were counted.
[[maybe_unused]] const int forgets_them_in_child =
    ::pthread_atfork(nullptr, nullptr, [] { taking_back = 0; });

bool must_stay_out() {
  return ending && std::this_thread::get_id() != last_thread;
}

}  // namespace

WithoutGil::~WithoutGil() {
  // The thread is counted before it asks. So the thread that sets `ending` sees all threads that
  // have not seen that.
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
