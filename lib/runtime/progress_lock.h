#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/completion.h"
#include "base/doorbell.h"
#include "base/mutex.h"
#include "runtime/executor.h"

namespace tutti::runtime {

/// The progress lock decides which thread moves the executor. Normally the communication thread
/// does, and sleeps on the doorbell while there is nothing to do. A user thread that submits or
/// waits takes the lock instead, because to wake another thread takes longer than to move a small
/// message. It does not take the lock if only one thread may call MPI, nor while large tensors move
/// between nodes.
///
/// Thread-safe. Pendings hold it weakly, and may outlive the session.
class ProgressLock final : public base::Driver {
 public:
  /// The references are valid until `close`.
  ProgressLock(Executor& executor, base::Doorbell& bell, bool crowded);

  /// The communication thread calls this. It returns when the executor has finished and all due
  /// code has run.
  void run();
  /// Call this after putting a call into the inbox. Moves the executor, or wakes the thread that
  /// does. Does not block.
  void serve_inbox();
  /// Moves the executor until `call` is done.
  void drive(const base::Completion& call, base::Clock::time_point deadline) override;
  /// Rings the bell, because the thread that moves the executor may sleep, and because replay may
  /// need to know of the wait.
  void wake(const base::Completion& call) override;
  /// Call this after `run`. It waits until no user thread uses the executor, which takes a moment.
  /// Afterwards none of the references is used.
  void close();

 private:
  /// The data that a thread passes on when it releases the progress lock.
  struct Handover {
    std::uint32_t ticket = 0;  ///< of the bell, before the last pass
    std::uint32_t news = 0;    ///< likewise, for a rank that waits for no data
    bool idle = false;         ///< no data of other ranks is waited for
    bool busy = true;          ///< the communication thread must go on at once
    bool leftovers = false;    ///< the last pass left something to the next
    bool takes_long = false;   ///< large tensors move: the communication thread should do it
    base::Clock::time_point until;
    base::Clock::time_point looked_at;
  };
  /// The events for which the communication thread may wait.
  struct Idle {
    Executor::Rest rest;
    bool visited = false;  ///< user threads come and go
  };
  /// A user thread that may use the bell and the executor.
  class Visitor;

  bool try_take();
  /// Takes the bell's tickets. Comes before a pass.
  void begin_pass(Handover& handover) const;
  /// Whether the bell has rung since the last pass began, so that the executor may have something
  /// to do.
  bool is_behind(const Handover& handover) const;
  void release(const Handover& handover);
  /// Makes a user thread's pass. Returns the events for which the thread may wait; nothing if
  /// something moved.
  std::optional<Executor::Rest> look(Handover& handover) TUTTI_EXCLUDES(turn_);
  Handover accept() TUTTI_EXCLUDES(turn_);
  /// Makes the communication thread's pass, and waits. Returns false if that was the last pass.
  bool own_turn(std::uint32_t ticket, Waiter& waiter) TUTTI_EXCLUDES(turn_);
  /// The part of `own_turn` under the lock. Returns nothing if the thread need not wait.
  std::optional<Idle> own_look(Waiter& waiter) TUTTI_REQUIRES(turn_);
  /// Lets a user thread run that released the progress lock a moment ago.
  void yield_to_user();
  /// The time until which the communication thread sleeps while user threads come and go.
  base::Clock::time_point usual_wake(base::Clock::time_point now) const;
  void run_dues() TUTTI_EXCLUDES(turn_);

  base::Doorbell& bell_;
  const bool crowded_;
  const bool any_thread_;
  const bool between_nodes_;
  base::Mutex turn_{4};  ///< held for one look, some tens of microseconds
  Executor& executor_ TUTTI_GUARDED_BY(turn_);
  std::atomic<bool> has_dues_{false};  ///< the communication thread was told
  std::vector<Due> dues_;              ///< only for the communication thread
  std::atomic<bool> taken_{false};     ///< a user thread holds the lock
  std::atomic<bool> visited_{false};   ///< a user thread has held it of late
  /// Only for the thread that holds the lock; see `soon`.
  bool expects_wait_ = false;
  bool in_stride_ = false;  ///< the communication thread moves data
  /// The time at which a user thread last released the lock.
  std::atomic<base::Clock::rep> let_go_at_{0};
  std::atomic<int> visitors_{0};
  std::atomic<bool> closed_{false};
  base::CondVar left_;
  /// The time at which the sleeping communication thread wakes by itself.
  std::atomic<base::Clock::rep> wakes_at_{0};
};

}  // namespace tutti::runtime
