#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "net/epoll_bell.h"
#include "ps/link/job.h"
#include "ps/protocol/states.h"
#include "ps/worker/membership.h"
#include "ps/worker/outstanding_requests.h"
#include "tutti/counters.h"
#include "tutti/options.h"

namespace tutti::ps {

class Courier;

/// The queue from the program's threads to the worker's thread.
struct TaskList {
  std::vector<Task> tasks;
  std::shared_ptr<base::Completion> completion;  ///< one part for each task
};
struct Barrier {
  std::shared_ptr<base::Completion> completion;
};
/// A setting, which has a number for each server, and the states that worker 0 sends before it.
struct Change {
  Setting setting;
  std::map<Key, optimizer::State> states;
  std::shared_ptr<base::Completion> completion;
  bool keeps_whole = false;  ///< the states' keys, where they are new
};
/// A question for the optimizer and for all states.
struct Survey {
  std::shared_ptr<std::vector<StateOfPiece>> into;
  std::shared_ptr<base::Completion> completion;
  bool wants_states = true;
  bool is_asked = false;  ///< whether the scheduler was asked where all values are
};
struct Leaving {
  std::shared_ptr<base::Completion> completion;
};
using WorkItem = std::variant<TaskList, Barrier, Change, Survey, Leaving>;

/// This process as a worker of a parameter-server job. The thread tutti-ps-worker owns its
/// connections. Thread-safe.
class Worker {
 public:
  /// Joins the job, and blocks until all processes are there. Throws the error that keeps it from
  /// joining. If this process already has an open store of the job, throws at once.
  Worker(const Job& job, bool asynchronous, const Options& options);
  /// Ends the thread. Call `close` before, unless the store has failed.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const Welcome& welcome() const { return welcome_; }
  int size() const { return size_; }

  /// Never waits. Throws the error that ended the worker.
  void submit(std::vector<Task> tasks, std::shared_ptr<base::Completion> completion);
  /// These functions block, and throw the failure of the answer. A callback must not call them,
  /// because it runs on the worker's thread.
  void barrier() TUTTI_EXCLUDES(meeting_);
  void set_optimizer(const Optimizer& optimizer);
  void set_compression(const Compression& compression);
  /// The states of the servers' optimizers, and the optimizer.
  optimizer::Saved states() { return ask(true); }
  /// Worker 0 says what to load, or why there is nothing to load. The other workers pass nothing.
  void load_states(std::optional<optimizer::Saved> saved, std::optional<Failure> failure);
  /// Leaves the job: waits for the calls under way, and then until all workers have left. If an
  /// error has ended the worker and no call has told the program, throws that error. A second call
  /// does nothing.
  void close() TUTTI_EXCLUDES(meeting_);

  /// The number of nodes that were lost since the start.
  int lost_nodes() const { return lost_nodes_; }
  Counters counters() const;
  /// A forked child calls this, because the thread does not exist there. It forgets the thread, and
  /// closes the child's connections.
  void abandon();

 private:
  friend class Courier;

  void post(WorkItem submission) TUTTI_EXCLUDES(mutex_);
  void end_thread();
  void change(Setting setting, std::string what, std::map<Key, optimizer::State> states = {},
              bool keeps_whole = false);
  optimizer::Saved ask(bool wants_states);
  static bool needs_whole(const Optimizer& optimizer);
  void post_and_wait(WorkItem submission, const std::shared_ptr<base::Completion>& completion);
  std::vector<WorkItem> take_posted() TUTTI_EXCLUDES(mutex_);
  /// Notes that the worker has ended. Returns the posted items that nobody has taken.
  std::vector<WorkItem> end_with(const std::exception_ptr& failure) TUTTI_EXCLUDES(mutex_);
  /// Call this before the call fails with the error that ends the worker, because the program may
  /// hear of the error there.
  void note_ended(const std::shared_ptr<base::Completion>& call) TUTTI_EXCLUDES(mutex_);
  /// Whether the program knows the error that has ended the worker.
  bool has_told() TUTTI_EXCLUDES(mutex_);

  const int size_;
  Memberships::Loan membership_;
  Welcome welcome_;
  std::atomic<std::uint32_t> asleep_{0};
  net::EpollBell bell_;
  base::Mutex meeting_{3};  ///< one barrier at a time, and none while this leaves
  bool left_ TUTTI_GUARDED_BY(meeting_) = false;
  base::Mutex mutex_{5};
  std::vector<WorkItem> posted_ TUTTI_GUARDED_BY(mutex_);
  std::exception_ptr ended_ TUTTI_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<base::Completion>> ended_calls_ TUTTI_GUARDED_BY(mutex_);
  std::atomic<int> lost_nodes_{0};
  bool told_ TUTTI_GUARDED_BY(mutex_) = false;  ///< a call was refused with `ended_`
  std::atomic<bool> keeps_whole_{false};        ///< the optimizer cannot update values in parts
  WorkerTally tally_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<Courier> courier_;  ///< until the thread ends
  base::NamedThread thread_;          // must be the last member: the thread uses all members above
};

}  // namespace tutti::ps
