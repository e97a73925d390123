#pragma once
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/loss_slot.h"

namespace tutti::runtime {

/// Looks for lost ranks while a store is created: first among the processes of this machine, later
/// also in the control plane. For the thread that creates the store.
class Lookout {
 public:
  using Ask = std::function<std::optional<control::FailedRank>()>;
  using Report = std::function<void(const control::FailedRank&)>;

  Lookout();

  /// Sets what sees the processes of this machine end. The other machines' ranks are told of it.
  void watch(Ask machine) { watched_.push_back(std::move(machine)); }
  /// Adds what learns of losses by itself on every rank, as the control plane does. Of these nobody
  /// is told: that a rank has given up a store is no loss to the next one.
  void also_ask(Ask ask) { asked_.push_back(std::move(ask)); }
  /// Sets of whom, by rank, it is known that it had given up this store. Its end is no loss yet: it
  /// may have gone because every rank knows by now that the store cannot be made, but this one,
  /// whom the word still reaches.
  void excuse(std::function<bool(int)> gave_up) { gave_up_ = std::move(gave_up); }
  /// Sets where a loss is reported, once, before it is thrown; at first the log.
  void report_to(Report report) { report_ = std::move(report); }
  /// Sets who is told of a loss that is seen on this machine, once, before it is thrown.
  void tell(Report others) { tell_ = std::move(others); }
  /// Sets what other ranks have told of. It comes before what is seen here.
  void listen(Ask others) { listen_ = std::move(others); }
  /// Throws `peer_lost` if a rank is lost, and then always.
  void look();

 private:
  std::optional<control::FailedRank> find();
  bool is_excused(int rank);

  std::vector<Ask> watched_;
  std::vector<Ask> asked_;
  Report report_;
  Report tell_;
  Ask listen_;
  std::function<bool(int)> gave_up_;
  std::optional<base::Clock::time_point> excused_until_;  ///< from the first such end on
  std::optional<control::FailedRank> lost_;
};

}  // namespace tutti::runtime
