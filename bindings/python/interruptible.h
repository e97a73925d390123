#pragma once
#include <nanobind/nanobind.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "python/gil.h"

namespace tutti::python {

/// The handler of a signal, such as Ctrl-C, runs at most this much later.
constexpr std::chrono::milliseconds signal_delay{100};

/// Lets a thread go on whose call nobody waits for any more. It ends with its call. Needs the GIL.
void let_go(std::thread thread);
template <typename Result>
void let_go(std::thread thread, std::future<Result> result) {
  let_go(std::move(thread));
  // If the result has come at this moment, to destroy it may block: for example, it may be a store.
  const WithoutGil unlocked;
  result = {};
}

/// Runs a blocking call that nothing can interrupt, and returns its result. Needs the GIL; other
/// threads may take it meanwhile. The call runs on a thread of its own, so that the handler of a
/// signal can run on this one. If the handler raises an exception, this function raises it, and the
/// call goes on in the background. So `call` must own the objects that it uses.
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
