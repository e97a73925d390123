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

/// The result of a call that goes on in the background. Copies refer to the same call. The program
/// may drop a Pending without waiting: the call then goes on, and the store only logs its error.
///
/// Thread-safe. The program does not need to poll: a call ends without that.
class TUTTI_EXPORT Pending {
 public:
  /// The store calls it once, with null or with the call's error, on the store's communication
  /// thread. If the call is already done, it runs at once on the thread that passes it to `then`.
  ///
  /// A callback may submit calls, but must not wait for any. It should be short, because the
  /// communication thread moves nothing while it runs. It must not own the last reference to the
  /// store, because a process ends if it destroys a store in a callback. If a callback throws, the
  /// store logs the error.
  using Callback = std::function<void(std::exception_ptr)>;

  /// A call that is done already, without error.
  Pending();
  explicit Pending(std::shared_ptr<base::Completion> completion)
      : completion_(std::move(completion)) {}

  /// Blocks until the call is done. While it waits, this thread may move the store's data itself,
  /// which saves waking the communication thread.
  ///
  /// Errors:
  /// - the call's own `Error`, if the call failed. Every copy of the Pending throws it, every time.
  ///   The contents of the call's outputs are then undefined.
  /// - `invalid_argument` in a callback, unless the call is done already;
  /// - `unsupported` in a forked child.
  void wait() const;
  /// Like `wait`, but returns false if the call is not done after `limit`. Throws as `wait` does.
  bool wait_for(std::chrono::nanoseconds limit) const;
  /// Makes the stream, instead of this thread, wait for the call: work that the program enqueues in
  /// the stream later finds the results in the outputs.
  ///
  /// Blocks:
  /// - with outputs on a device, only until the last copy to an output is issued to the device.
  ///   That is about one chunk before `wait` would return. This thread moves no data meanwhile;
  ///   other threads do.
  /// - with outputs on the CPU, until the call is done, as `wait` does.
  ///
  /// Afterwards the program may use the call's keys again. A call that does so waits until this
  /// call is over, which takes about as long as one chunk.
  ///
  /// Errors:
  /// - the call's own `Error`, if the call has failed by then. If the call fails later, `wait`
  ///   throws the error, and the work in the stream finds undefined outputs.
  /// - `invalid_argument` in a callback, unless the call is already done, and for a DeviceStream
  ///   that refers to no stream;
  /// - `invalid_argument` for a stream that the program captures as a graph, because later runs of
  ///   the graph would not wait for anything;
  /// - `unsupported` in a forked child.
  void wait_on(DeviceStream stream) const;
  /// Whether the call is done. Does not block, and does not throw.
  bool done() const noexcept;
  /// Adds a callback. Does not block. Several callbacks run in the order in which they were added.
  /// Throws `unsupported` in a forked child if the call is not done: the call never ends there.
  void then(Callback callback) const;

 private:
  std::shared_ptr<base::Completion> completion_;
};

}  // namespace tutti
