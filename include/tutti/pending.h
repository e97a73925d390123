#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "tutti/export.h"

namespace tutti {

namespace base {
class Completion;
}

/// The outcome of a call that goes on in the background. Copies refer to the same call. Dropping
/// it unwaited is allowed: the work goes on, and an error is then only logged.
///
/// Thread-safe. Completion never needs the user to poll.
class TUTTI_EXPORT Pending {
 public:
  /// Called once, with null or the error. It runs on the store's communication thread (or at once
  /// on the caller's when the call is done already): it may submit, never wait, and not own the
  /// store alone: destroying it here ends the process.
  using Callback = std::function<void(std::exception_ptr)>;

  /// Done already, without error.
  Pending();
  explicit Pending(std::shared_ptr<base::Completion> completion)
      : completion_(std::move(completion)) {}

  /// Blocks until the call is done; throws `Error` when it failed, and then what the call's outputs
  /// hold is undefined. Every copy throws, every time.
  /// Meanwhile this thread may move the store's data itself, which saves waking another.
  /// Throws `invalid_argument` when called from a callback, `unsupported` in a forked child.
  void wait() const;
  /// As `wait`, but false when `limit` has passed first. Throws as `wait` does.
  bool wait_for(std::chrono::nanoseconds limit) const;
  /// Does not block, does not throw.
  bool done() const noexcept;
  /// Does not block. Several callbacks are called in the order given.
  void then(Callback callback) const;

 private:
  std::shared_ptr<base::Completion> completion_;
};

}  // namespace tutti
