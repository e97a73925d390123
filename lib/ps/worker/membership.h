#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "ps/link/job.h"
#include "ps/link/scheduler_link.h"
#include "tutti/error.h"
#include "tutti/options.h"

namespace tutti::ps {

/// This process as one worker of a job, from its first store until it ends. It is a connection to
/// the scheduler on which the process sends nothing, and which the system closes however the
/// process ends. The scheduler tells on it when the job has ended.
class Membership {
 public:
  /// Tries to connect until `create_timeout` has passed.
  Membership(const Job& job, const Options& options);

  /// The scheduler's number for this membership, for `Register`.
  std::uint64_t number() const { return number_; }
  /// If the job has ended, throws `peer_lost` with the reason. `patience` is how long this waits
  /// for the scheduler's message about that.
  void check(base::Clock::duration patience = {});
  /// Whether `check` has thrown.
  bool has_ended() const { return ended_.has_value(); }
  /// A forked child calls this. It closes the child's copy of the connection.
  void abandon() { link_.abandon(); }

  int rank = -1;  ///< the rank in the stores so far; -1: there was none

 private:
  void wait_for_number(const Job& job, std::chrono::milliseconds limit);

  net::Poller poller_;
  SchedulerLink link_;
  std::uint64_t number_ = 0;
  std::optional<Error> ended_;
};

/// The memberships of this process. A process has one membership in a job, and so one store at a
/// time there. Thread-safe.
class Memberships {
  struct Entry {
    std::string job;
    std::unique_ptr<Membership> membership;  ///< null: it is being made
    bool is_lent = true;
  };
  using Entries = std::list<Entry>;

 public:
  static Memberships& of_process();

  /// A worker's membership, until the worker has closed its store. The constructor throws
  /// `invalid_argument` if another worker has the membership, and any error that keeps this process
  /// from the job.
  class Loan {
   public:
    Loan(Memberships& from, const Job& job, const Options& options);
    ~Loan() { give_back(); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    Membership& operator*() const { return *entry_->membership; }
    void give_back();

   private:
    Memberships& from_;
    const Entries::iterator entry_;
    bool is_given_back_ = false;
  };

  // For tests that play all workers of a job in one process.

  /// Allows this process this many memberships of this job.
  void allow(const Job& job, int most) TUTTI_EXCLUDES(mutex_);
  /// Ends the memberships that no store uses. To the job, this process ends.
  void leave(const Job& job) TUTTI_EXCLUDES(mutex_);

 private:
  Memberships();
  Entries::iterator lend(const Job& job, const Options& options) TUTTI_EXCLUDES(mutex_);
  /// Finds a membership that is free, or an entry for one that is still to be made.
  Entries::iterator reserve(const std::string& job) TUTTI_EXCLUDES(mutex_);
  void take_back(Entries::iterator entry) TUTTI_EXCLUDES(mutex_);
  // A fork begins in one function and ends in another, which the thread-safety analysis cannot
  // follow.
  void prepare_fork() TUTTI_THREAD_ATTRIBUTE(no_thread_safety_analysis) { mutex_.lock(); }
  void go_on_after_fork() TUTTI_THREAD_ATTRIBUTE(no_thread_safety_analysis) { mutex_.unlock(); }
  void begin_as_child() TUTTI_THREAD_ATTRIBUTE(no_thread_safety_analysis);

  base::Mutex mutex_{5};
  Entries entries_ TUTTI_GUARDED_BY(mutex_);
  std::map<std::string, int> most_ TUTTI_GUARDED_BY(mutex_);  ///< by job; else one
};

}  // namespace tutti::ps
