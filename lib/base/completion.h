#pragma once
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace tutti::base {

class Completion;

/// Moves calls forward on a thread that would otherwise sleep until one is done.
class Driver {
 public:
  virtual ~Driver() = default;
  /// Returns when `call` is done, when somebody else moves it, or at the deadline. Thread-safe.
  virtual void drive(const Completion& call, Clock::time_point deadline) = 0;
};

/// What a `Pending` waits for: done after `parts` calls of `finish`, failed with the first error
/// among them. Thread-safe.
class Completion {
 public:
  using Callback = std::function<void(std::exception_ptr)>;
  /// Names the call in messages: "pushpull of 'fc1_weight'".
  using What = std::function<std::string()>;

  /// With no parts it is done. `what` is called, by any thread, when a message needs it.
  Completion(std::size_t parts, What what, std::weak_ptr<Driver> driver = {});
  Completion(std::size_t parts, std::string what, std::weak_ptr<Driver> driver = {})
      : Completion(
            parts, [what = std::move(what)] { return what; }, std::move(driver)) {}
  /// Logs an error that nobody saw.
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// One part is done, or failed. Runs the callbacks when it was the last one.
  void finish(std::exception_ptr error = nullptr);
  /// As `finish`, but leaves the callbacks to `call_back`, perhaps on another thread. True: there
  /// are some.
  bool settle(std::exception_ptr error = nullptr) TUTTI_EXCLUDES(mutex_);
  void call_back() TUTTI_EXCLUDES(mutex_);

  bool is_done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// False when the deadline passed first. Throws what the call failed with.
  bool wait_until(Clock::time_point deadline) TUTTI_EXCLUDES(mutex_);
  /// Some thread has begun to wait.
  bool is_waited_for() const noexcept { return waited_for_.load(std::memory_order_relaxed); }
  void then(Callback callback) TUTTI_EXCLUDES(mutex_);
  std::string what() const { return what_(); }

  /// Set while callbacks run on the current thread: waiting there would wait for itself.
  static bool is_in_callback();

 private:
  void run(const Callback& callback, const std::exception_ptr& error);

  const What what_;
  const std::weak_ptr<Driver> driver_;
  Mutex mutex_;
  CondVar changed_;
  std::atomic<std::size_t> open_parts_;  ///< the last one goes under the mutex
  std::exception_ptr error_ TUTTI_GUARDED_BY(mutex_);
  std::list<Callback> callbacks_ TUTTI_GUARDED_BY(mutex_);
  std::atomic<bool> done_;
  std::atomic<bool> waited_for_{false};
  std::atomic<bool> error_seen_{false};
};

}  // namespace tutti::base
