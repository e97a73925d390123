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

/// Returns an `invalid_argument`, which says that the program captures the stream that it passed to
/// `call`.
Error capture_error(std::string_view call);

/// Keeps the calls of a store of one process until the GPU has done their work. Three kinds of
/// threads poll the events of these calls: those that wait for a call, those that ask whether it is
/// done, and those that make a further call to the store. Callbacks run on a thread `tutti-gpu`. It
/// starts when a call that is not done gets its first callback, and it polls only while a callback
/// may become due. Thread-safe.
class GpuCalls final : public base::Driver, public std::enable_shared_from_this<GpuCalls> {
 public:
  /// If the work of a call takes longer than `limit`, the call fails with `timeout`.
  GpuCalls(std::shared_ptr<const GpuMemory> memory, std::chrono::milliseconds limit)
      : memory_(std::move(memory)), limit_(limit) {}
  GpuCalls(const GpuCalls&) = delete;
  GpuCalls& operator=(const GpuCalls&) = delete;
  /// Call `close` first.
  ~GpuCalls() override = default;

  /// Adds a call. Its work is all the work that the GPU's stream holds now. The GPU's context must
  /// be current. The call keeps `kept` until the work is done.
  Pending add(base::Completion::What what, const Key& key, std::vector<Tensor> kept)
      TUTTI_EXCLUDES(mutex_);
  /// Keeps tensors that belong to no call, until all work is done that the GPU's stream holds now.
  /// This is for work that has already taken too long: `close` does not wait for it.
  void keep(std::vector<Tensor> kept) TUTTI_EXCLUDES(mutex_);
  /// Ends the calls whose work is done.
  void poll() TUTTI_EXCLUDES(mutex_);
  /// Blocks until no call is open and no callback is due. Then the thread has ended. Returns false
  /// if work that took too long is not done yet. Such work may use its memory at any time, so this
  /// object keeps that memory until the process ends, and the caller must keep its own. Throws
  /// `invalid_argument` in a callback.
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
    Key key;  ///< like `deadline`, only for calls
    base::Clock::time_point deadline;
  };
  struct Ended {
    Outcome completion;
    std::vector<Tensor> kept;
    std::exception_ptr error;
  };

  /// Takes the first call whose work is done or has failed, or takes too long.
  std::optional<Ended> take_ended() TUTTI_EXCLUDES(mutex_);
  std::optional<Ended> take_late() TUTTI_REQUIRES(mutex_);
  bool is_first_done() TUTTI_REQUIRES(mutex_);
  void finish(Ended call) TUTTI_EXCLUDES(mutex_);
  /// The first call that is open. Null if all calls have ended or are late.
  Outcome first_open() const TUTTI_REQUIRES(mutex_);
  void start_thread() TUTTI_REQUIRES(mutex_);
  /// Waits for callbacks that are due. Then the thread returns.
  base::NamedThread end_thread() TUTTI_EXCLUDES(mutex_);
  void run() TUTTI_EXCLUDES(mutex_);
  /// Takes a call that has callbacks to run, and notes that somebody runs callbacks. Null if there
  /// is none.
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
