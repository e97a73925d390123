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

  /// `now` is the clock; a test brings its own.
  explicit Lookout(std::function<base::Clock::time_point()> now = base::Clock::now);

  /// Adds a source that sees processes of this machine end. The ranks of the other machines are
  /// told of these losses.
  void watch(Ask machine) { watched_.push_back(std::move(machine)); }
  /// Adds a source that learns of losses by itself on every rank, as the control plane does. The
  /// other ranks are not told of these losses: a rank that has given up a store is not lost to the
  /// next one.
  void also_ask(Ask ask) { asked_.push_back(std::move(ask)); }
  /// Sets the test whether a rank had given up this store. The end of such a rank is no loss yet.
  /// It may have ended because all other ranks already know that the store cannot be made, and this
  /// rank will learn it in a moment.
  void excuse(std::function<bool(int)> gave_up) { gave_up_ = std::move(gave_up); }
  /// Sets the function that reports a loss, once, before it is thrown. Initially it logs the loss.
  void report_to(Report report) { report_ = std::move(report); }
  /// Sets the function that tells others of a loss that is seen on this machine, once, before it is
  /// thrown.
  void tell(Report others) { tell_ = std::move(others); }
  /// Sets the source of losses that other ranks have told of. It comes before losses that are seen
  /// here.
  void listen(Ask others) { listen_ = std::move(others); }
  /// Throws `peer_lost` if a rank is lost, and then always.
  void look();

 private:
  std::optional<control::FailedRank> find();
  bool is_excused(int rank);

  const std::function<base::Clock::time_point()> now_;
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
