#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/creations.h"
#include "control/presence.h"
#include "tutti/error.h"

namespace tutti::runtime {

/// A `create` that one thread is carrying out. It tells the other ranks on this machine which store
/// this rank creates, and sees which stores they create. Only that thread uses it.
class Creating {
 public:
  /// `presence` outlives this object. If it is null, nothing is known of other ranks. `group` holds
  /// the job's ranks that belong to the store; if it is empty, all do. `stores` is the number of
  /// stores that this process has created over them.
  Creating(control::Presence* presence, std::vector<int> group, int stores,
           std::chrono::milliseconds report_after);
  /// If `end` was not called, notes that the store is given up.
  ~Creating();
  Creating(const Creating&) = delete;
  Creating& operator=(const Creating&) = delete;
  /// Notes that the store has been created or given up.
  void end(bool given_up);

  /// Every wait for other ranks calls this again and again. It logs the ranks for which this one
  /// waits, after `report_after` and then at doubling intervals. If one of these ranks creates
  /// another store to which this rank belongs, it already logs after 2 s.
  void look();
  /// Whether that rank of the job, on this machine, had begun this store and has given it up.
  bool was_given_up_by(int rank) const { return look_at(rank).doing == Doing::gave_up; }
  /// Blocks, asleep, until the ranks of this machine have begun to create this store. It does not
  /// see those of other machines. Throws `timeout` after `limit`, and the errors that `look`
  /// throws.
  void wait_for_machine(std::chrono::milliseconds limit, const std::function<void()>& look);
  /// If the error is a timeout, adds which store each rank is creating, and lists the ranks that
  /// did not come as the error's ranks.
  Error explain(const Error& error) const;

 private:
  /// The store that another rank creates: this store, which it may have given up, or another store
  /// to which this rank belongs.
  enum class Doing { the_same, gave_up, another, nothing, unknown };
  struct Other {
    Doing doing = Doing::unknown;
    std::string text;
  };

  std::vector<int> others() const;
  Other look_at(int rank) const;
  bool is_late(int rank) const;
  /// The ranks for which this one still waits, in the store's numbering.
  std::vector<int> late() const;
  bool has_part(const control::Creation& creation) const;
  std::string what_all_do() const;

  control::Presence* const presence_;
  const control::Creation mine_;
  const std::chrono::milliseconds report_after_;
  const base::Clock::time_point start_ = base::Clock::now();
  base::Clock::time_point next_look_;
  bool ended_ = false;
};

}  // namespace tutti::runtime
