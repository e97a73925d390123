#pragma once
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "tutti/device_stream.h"

namespace tutti::base {

class Completion;

/// Marks the current thread while it runs a callback or a deleter of the program's.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  const bool before_;
};

/// Throws `invalid_argument` in a callback or a deleter, because a call that blocks would wait
/// there for itself. `what` names the call: "barrier()".
void refuse_in_callback(std::string_view what);
/// For the end of a store, which waits for the store's threads. In a callback or a deleter it logs
/// that and ends the process.
void abort_in_callback();

/// Makes progress on calls, on a thread that waits and would otherwise sleep. Thread-safe.
class Driver {
 public:
  virtual ~Driver() = default;
  /// Blocks until `call` is done, another thread makes progress on it, or the deadline passes.
  virtual void drive(const Completion& call, Clock::time_point deadline) = 0;
  /// Called when a thread has begun to wait for `call` and will not drive. Wakes the thread that
  /// does. Does not block.
  virtual void wake(const Completion& call) { static_cast<void>(call); }
  /// Called when a thread asks whether `call` is done and will not wait. If no other thread finds
  /// out, this does. Does not block.
  virtual void ask(const Completion& call) noexcept { static_cast<void>(call); }
  /// Called when `call` has got a callback. Sees to it that the callback runs. Does not block.
  virtual void attend(const Completion& call) { static_cast<void>(call); }
};

/// Makes streams of the program wait for one call on devices. The object that issues the call's
/// copies makes it, and the call keeps it. Thread-safe. Nothing here blocks.
class StreamOrder {
 public:
  virtual ~StreamOrder() = default;
  /// Throws `invalid_argument` if the program captures the stream as a graph.
  virtual void check(DeviceStream stream) const = 0;
  /// Makes work that is enqueued in the stream later wait for all copies that were issued for the
  /// call. Call this only after the last copy was issued, because an event that is not recorded yet
  /// orders nothing.
  virtual void hold_back(DeviceStream stream) const = 0;
};

/// The state behind a `Pending`. It is done after `parts` calls of `finish`, and fails with the
/// first error among them. Thread-safe.
class Completion {
 public:
  using Callback = std::function<void(std::exception_ptr)>;
  /// Names the call in messages: "pushpull of 'fc1_weight'".
  using What = std::function<std::string()>;

  /// If `parts` is 0, the completion is done at once. Any thread may call `what`, when a message
  /// needs the text. `order` is null for a call whose outputs are on the CPU.
  Completion(std::size_t parts, What what, std::weak_ptr<Driver> driver = {},
             std::shared_ptr<const StreamOrder> order = nullptr);
  Completion(std::size_t parts, std::string what, std::weak_ptr<Driver> driver = {},
             std::shared_ptr<const StreamOrder> order = nullptr)
      : Completion(
            parts, [what = std::move(what)] { return what; }, std::move(driver), std::move(order)) {
  }
  /// Logs the error if no waiter and no callback has seen it.
  ~Completion();
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// Notes that the last copy of one part has been issued to a device. A part need not be issued
  /// before it is done or fails. Then `wait_on` waits until the call is done.
  void issue() TUTTI_EXCLUDES(mutex_);
  /// Notes that one part is done, or has failed. Runs the callbacks if it was the last part.
  void finish(std::exception_ptr error = nullptr);
  /// Like `finish`, but does not run the callbacks: `call_back` does, perhaps on another thread.
  /// Returns true if there are callbacks to run.
  bool settle(std::exception_ptr error = nullptr) TUTTI_EXCLUDES(mutex_);
  void call_back() TUTTI_EXCLUDES(mutex_);

  bool is_done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Blocks until the call is done. Returns false if the deadline passed first. Throws the error of
  /// a failed call. In a forked child, where a call that is not done never ends, it throws
  /// `unsupported`.
  bool wait_until(Clock::time_point deadline) TUTTI_EXCLUDES(mutex_);
  /// Does the same as Pending's `wait_on`, for any thread that may wait.
  void wait_on(DeviceStream stream) TUTTI_EXCLUDES(mutex_);
  /// Whether the call is done. For a thread that has no other way to learn it.
  bool look() noexcept;
  /// Whether a thread has begun to wait.
  bool is_waited_for() const noexcept { return waited_for_.load(std::memory_order_relaxed); }
  /// Throws `unsupported` in the same case as `wait_until`.
  void then(Callback callback) TUTTI_EXCLUDES(mutex_);
  /// Whether a waiter or a callback has seen the error of this call.
  bool is_error_seen() const noexcept { return error_seen_; }
  std::string what() const { return what_(); }

  /// Whether the current thread runs a callback or a deleter. These must not wait for a call: the
  /// communication thread runs them, and would wait for itself.
  static bool is_in_callback();

 private:
  /// Puts the callback into the list. If the call is done, returns false and the outcome with which
  /// to call it.
  bool keep(Callback& callback, std::exception_ptr& outcome) TUTTI_EXCLUDES(mutex_);
  void run(const Callback& callback, const std::exception_ptr& error);
  void throw_if_failed() TUTTI_REQUIRES(mutex_);

  const ForkGuard fork_guard_;
  const What what_;
  const std::weak_ptr<Driver> driver_;
  const std::shared_ptr<const StreamOrder> order_;
  Mutex mutex_{5};
  CondVar changed_;
  std::atomic<std::size_t> open_parts_;  ///< the last decrement needs the mutex
  std::size_t unissued_parts_ TUTTI_GUARDED_BY(mutex_);
  std::exception_ptr error_ TUTTI_GUARDED_BY(mutex_);
  std::list<Callback> callbacks_ TUTTI_GUARDED_BY(mutex_);
  std::atomic<bool> done_;
  std::atomic<bool> waited_for_{false};
  std::atomic<bool> error_seen_{false};
};

}  // namespace tutti::base
