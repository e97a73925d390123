#pragma once
#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/completion.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "kvstore/gpu_memory.h"
#include "tutti/error.h"
#include "tutti/key.h"
#include "tutti/pending.h"

namespace tutti {

/// An `invalid_argument`: `call` was made with a stream that is being captured.
Error capture_error(std::string_view call);

/// The calls of a store of one process whose work a GPU has still to do. Their events are polled by
/// threads that wait, by threads that look, and by each further call of the store. Callbacks run on
/// a thread `tutti-gpu`. It starts when a call that is not done gets the first callback, and polls
/// only while there may be more. Thread-safe.
class GpuCalls final : public base::Driver, public std::enable_shared_from_this<GpuCalls> {
 public:
  /// A call fails with `timeout` once its work has taken longer than `limit`.
  GpuCalls(std::shared_ptr<const GpuMemory> memory, std::chrono::milliseconds limit)
      : memory_(std::move(memory)), limit_(limit) {}
  GpuCalls(const GpuCalls&) = delete;
  GpuCalls& operator=(const GpuCalls&) = delete;
  /// After `close`.
  ~GpuCalls() override = default;

  /// A call whose work is all that the GPU's stream holds now; the current context is the GPU's.
  /// `kept` lives until that is done.
  Pending add(base::Completion::What what, const Key& key, std::vector<Tensor> kept)
      TUTTI_EXCLUDES(mutex_);
  /// Keeps tensors of no call until all is done that the GPU's stream holds now; for work that has
  /// taken too long already: `close` does not wait for it.
  void keep(std::vector<Tensor> kept) TUTTI_EXCLUDES(mutex_);
  /// Ends the calls that are done.
  void poll() TUTTI_EXCLUDES(mutex_);
  /// Blocks until no call is open and no callback is due; then the thread has ended. False: work
  /// that took too long is not done yet, and may use its memory at any time, so that this keeps it
  /// for good; the caller must keep its own. Throws `invalid_argument` in a callback.
  bool close() TUTTI_EXCLUDES(mutex_);

  void drive(const base::Completion& call, base::Clock::time_point deadline) override;
  void ask(const base::Completion& call) noexcept override;
  void attend(const base::Completion& call) override TUTTI_EXCLUDES(mutex_);

 private:
  class End;
  using Outcome = std::shared_ptr<base::Completion>;
  struct Open {
    Outcome completion;  ///< null once the call has failed because it took too long, and for `keep`
    std::shared_ptr<const End> end;
    std::vector<Tensor> kept;
    Key key;  ///< with `deadline` for calls alone
    base::Clock::time_point deadline;
  };
  struct Ended {
    Outcome completion;
    std::vector<Tensor> kept;
    std::exception_ptr error;
  };

  /// The first call whose work is done or has failed, or that takes too long.
  std::optional<Ended> take_ended() TUTTI_EXCLUDES(mutex_);
  std::optional<Ended> take_late() TUTTI_REQUIRES(mutex_);
  bool is_first_done() TUTTI_REQUIRES(mutex_);
  void finish(Ended call) TUTTI_EXCLUDES(mutex_);
  /// Null: all have ended, or are late.
  Outcome first_open() const TUTTI_REQUIRES(mutex_);
  void start_thread() TUTTI_REQUIRES(mutex_);
  /// Waits for callbacks that are due. The thread then returns.
  base::NamedThread end_thread() TUTTI_EXCLUDES(mutex_);
  void run() TUTTI_EXCLUDES(mutex_);
  /// A call with callbacks to run, whose taker is busy then; null: none.
  Outcome take_due() TUTTI_REQUIRES(mutex_);

  const std::shared_ptr<const GpuMemory> memory_;
  const std::chrono::milliseconds limit_;
  base::Mutex mutex_{4};
  base::CondVar changed_;
  std::deque<Open> open_ TUTTI_GUARDED_BY(mutex_);  ///< in the order of the stream
  std::size_t busy_ TUTTI_GUARDED_BY(mutex_) = 0;   ///< threads that end calls or run callbacks
  std::exception_ptr failure_ TUTTI_GUARDED_BY(mutex_);  ///< the device's, which is for good
  std::deque<Outcome> due_ TUTTI_GUARDED_BY(mutex_);     ///< they have callbacks to run
  bool attends_ TUTTI_GUARDED_BY(mutex_) = false;
  bool closed_ TUTTI_GUARDED_BY(mutex_) = false;
  base::NamedThread thread_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
