#pragma once
#include <nanobind/nanobind.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "python/gil.h"

namespace tutti::python {

/// A signal's handler, such as Ctrl-C's, runs at most so much later.
constexpr std::chrono::milliseconds signal_delay{100};

/// A thread whose call nobody waits for any more goes on, and ends with its call. Needs the GIL.
void let_go(std::thread thread);
template <typename Result>
void let_go(std::thread thread, std::future<Result> result) {
  let_go(std::move(thread));
  // If it came this moment: to destroy it, such as a store, may block.
  const WithoutGil unlocked;
  result = {};
}

/// Runs a blocking call that nothing can interrupt, and returns what it returns. Needs the GIL,
/// which other threads may take meanwhile. The call runs on a thread of its own, so that the
/// handler of a signal can run on this one. If the handler raises an exception, this function
/// raises it, and the call goes on in the background. So `call` must own the objects that it uses.
template <typename Call>
auto interruptible(Call call) {
  using Result = decltype(call());
  auto task = std::make_shared<std::packaged_task<Result()>>(std::move(call));
  std::future<Result> result = task->get_future();
  std::thread thread([task = std::move(task)]() mutable {
    (*task)();
    task.reset();
  });
  const auto is_done = [&result] {
    const WithoutGil unlocked;
    return result.wait_for(signal_delay) == std::future_status::ready;
  };
  while (!is_done()) {
    if (PyErr_CheckSignals() == 0) continue;
    let_go(std::move(thread), std::move(result));
    throw nanobind::python_error();
  }
  {
    const WithoutGil unlocked;
    thread.join();
  }
  return result.get();
}

}  // namespace tutti::python
