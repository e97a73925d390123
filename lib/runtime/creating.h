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

/// One thread's way through a `create`. It tells the other ranks on this machine which store it
/// creates, and sees which stores they create. For that thread alone.
class Creating {
 public:
  /// `presence`: outlives this; null: nothing is known of others. `group`: the store's ranks of the
  /// job; empty: all. `stores`: how many this process has created over them.
  Creating(control::Presence* presence, std::vector<int> group, int stores,
           std::chrono::milliseconds report_after);
  /// The store is given up, unless it has ended otherwise.
  ~Creating();
  Creating(const Creating&) = delete;
  Creating& operator=(const Creating&) = delete;
  /// The store is there, or given up.
  void end(bool given_up);

  /// Every wait for other ranks calls this again and again. It logs the ranks for which this one
  /// waits, after `report_after` and then at doubling intervals. It logs after 2 s already if one
  /// of these ranks creates another store in which this rank has a part.
  void look();
  /// Whether that rank of the job, on this machine, had begun this store and has given it up.
  bool was_given_up_by(int rank) const { return look_at(rank).doing == Doing::gave_up; }
  /// Blocks, asleep, until the ranks of this machine have begun to create this store. Those of
  /// other machines are not seen. Throws `timeout` after `limit`, and what `look` throws.
  void wait_for_machine(std::chrono::milliseconds limit, const std::function<void()>& look);
  /// If the error is a timeout, adds which store each rank creates, and sets the ranks that did not
  /// come as its ranks.
  Error explain(const Error& error) const;

 private:
  /// The store that another rank creates: this store, which it may have given up, or another store
  /// in which this rank has a part.
  enum class Doing { the_same, gave_up, another, nothing, unknown };
  struct Other {
    Doing doing = Doing::unknown;
    std::string text;
  };

  std::vector<int> others() const;
  Other look_at(int rank) const;
  bool is_late(int rank) const;
  /// The store's ranks, as the store counts them, that are to be waited for.
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
