#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "tutti/device_stream.h"
#include "tutti/export.h"

namespace tutti {

namespace base {
class Completion;
}

/// The result of a call that goes on in the background. Copies refer to the same call. A Pending
/// may be dropped without waiting: the call goes on, and an error is then only logged.
///
/// Thread-safe. Calls end without polling by the user.
class TUTTI_EXPORT Pending {
 public:
  /// Called once, with null or the error, on the store's communication thread; on the caller's, at
  /// once, when the call is done already. It may submit but not wait, and is short: meanwhile that
  /// thread moves nothing. It must not own the last reference to the store: destroying the store
  /// here ends the process.
  using Callback = std::function<void(std::exception_ptr)>;

  /// Done already, without error.
  Pending();
  explicit Pending(std::shared_ptr<base::Completion> completion)
      : completion_(std::move(completion)) {}

  /// Blocks until the call is done. If the call failed, throws its `Error`, from every copy and
  /// every time; the contents of the call's outputs are then undefined. While it waits, this thread
  /// may move the store's data itself, which saves waking the communication thread. Throws
  /// `invalid_argument` in a callback and `unsupported` in a forked child.
  void wait() const;
  /// As `wait`, but returns false if `limit` passes first. Throws as `wait` does.
  bool wait_for(std::chrono::nanoseconds limit) const;
  /// Makes the stream wait for the call in place of this thread: work that is enqueued there later
  /// finds the results in the outputs. Blocks only until the last copy to an output is issued to
  /// the device, which is about one chunk before `wait` would return; with outputs on the CPU it
  /// blocks until the call is done, as `wait` does. It counts as a wait, but for outputs on a
  /// device it leaves moving the store's data to other threads. From then on the call's keys may be
  /// used again: their next call waits in place of the program, for about the time of one chunk.
  ///
  /// Throws the call's `Error` if the call has failed by then; where it fails later, `wait`
  /// throws it, and the stream's work finds undefined outputs. Throws `invalid_argument` in a
  /// callback, for a stream that is none, and for one that the program captures as a graph, whose
  /// later runs would not wait for anything. Throws `unsupported` in a forked child.
  void wait_on(DeviceStream stream) const;
  /// Does not block, does not throw.
  bool done() const noexcept;
  /// Does not block. Several callbacks are called in the order given. Throws `unsupported` in a
  /// forked child where the call is not done: there it never ends.
  void then(Callback callback) const;

 private:
  std::shared_ptr<base::Completion> completion_;
};

}  // namespace tutti
