#pragma once
#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "control/creations.h"
#include "control/loss_slot.h"
#include "control/pid_files.h"

namespace tutti::control {

/// Watches the processes of the job that have called `create` on this machine: which are there,
/// which are stopped, and which have ended. It begins before MPI is up, when nothing else can tell.
/// It needs no messages from the processes, and it lasts as long as this process. Thread-safe.
///
/// Each process listens at an abstract Unix socket of the job, and then connects to all others. So
/// of two processes, the later one finds the earlier. A process that connects sends its rank. The
/// kernel tells which process it is, and of which user. Processes of other users are ignored.
class Presence {
 public:
  /// - `job`: a name that no other job on this machine has at the same time.
  /// - `folder`: the folder for the job's pid files, and for the lists of stores that the processes
  ///   create. If it is empty, there are no such files.
  /// - `on_machine`: the number of ranks that run on this machine; 0 if it is not known.
  ///
  /// If there is no socket, this does not throw, but some processes are not seen. Throws
  /// `unsupported` if another process is this rank.
  Presence(const std::string& job, int rank, int size, const std::string& folder, int on_machine);

  int rank() const { return rank_; }
  int size() const { return size_; }
  int on_machine() const { return on_machine_; }

  /// The stores that the ranks of this machine are creating.
  Creations& creations() { return creations_; }
  /// Whether this rank has not come yet, but runs on this machine or will run on it. Does not
  /// block.
  bool has_yet_to_come(int rank) TUTTI_EXCLUDES(mutex_);

  struct Lost : FailedRank {
    bool stopped = false;  ///< whether it is stopped; otherwise its process has ended
  };
  /// Takes in the processes that have come since the last call. Returns the first process that has
  /// ended, or that has been stopped without a break for `stopped_for`. That limit is
  /// `heartbeat_timeout`; only time in which this process ran counts. If a process had found
  /// another rank lost before it ended, that other rank is returned. `among` restricts the search
  /// to these ranks; if it is empty, all ranks count. Does not block.
  std::optional<Lost> poll_lost(std::chrono::milliseconds stopped_for,
                                const std::vector<int>& among = {}) TUTTI_EXCLUDES(mutex_);

  /// Notes that this process has found this rank lost by other means. Processes that see this
  /// process end because of that read the note.
  void note(const FailedRank& lost) TUTTI_EXCLUDES(mutex_);

  /// Returns the first process that runs and has announced that it leaves. Such a process comes to
  /// no further `create`. Looks at most ten times a second, and returns nothing in between. Does
  /// not block.
  std::optional<FailedRank> poll_leaving(const std::vector<int>& among = {}) TUTTI_EXCLUDES(mutex_);

  /// All other ranks, by their state. The ranks in `unseen` have not come, or are on other
  /// machines.
  struct Roll {
    std::vector<int> unseen, running, stopped, ended;
    std::vector<int> leaving;  ///< run, and have said that they leave
  };
  Roll call() TUTTI_EXCLUDES(mutex_);

  /// Announces that this process leaves.
  void leave() TUTTI_EXCLUDES(mutex_);

 private:
  struct Mate {
    base::Fd process;  ///< a pidfd; none: it had ended before
    pid_t id = 0;
    int beats_stopped = 0;
  };

  std::string name_of(int rank) const;
  void call_others() TUTTI_REQUIRES(mutex_);
  bool listens(int rank) const;
  void take_in_callers() TUTTI_REQUIRES(mutex_);
  void take_in(const base::Fd& socket, int rank) TUTTI_REQUIRES(mutex_);
  void look_for_ended() TUTTI_REQUIRES(mutex_);
  void count_stops() TUTTI_REQUIRES(mutex_);
  std::optional<Lost> find_lost(std::chrono::milliseconds stopped_for,
                                const std::vector<int>& among) const TUTTI_REQUIRES(mutex_);
  Lost cause_of_end(int rank, const std::vector<int>& among) const;
  void note_locked(const FailedRank& lost) TUTTI_REQUIRES(mutex_);
  std::optional<Lost> stopped_for_long(base::Clock::duration limit, base::Clock::duration slack,
                                       const std::vector<int>& among) const TUTTI_REQUIRES(mutex_);

  const std::string job_;
  const int rank_;
  const int size_;
  const int on_machine_;
  const PidFiles pid_files_;
  Creations creations_;  ///< comes after `pid_files_`, which checks that this process is the rank
  base::Mutex mutex_{5};
  base::Fd listener_ TUTTI_GUARDED_BY(mutex_);
  std::map<int, Mate> mates_ TUTTI_GUARDED_BY(mutex_);
  base::Clock::time_point next_beat_ TUTTI_GUARDED_BY(mutex_){};
  base::Clock::time_point next_call_ TUTTI_GUARDED_BY(mutex_){};
  bool has_noted_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::control
