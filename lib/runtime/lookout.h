#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "control/loss.h"

namespace tutti::runtime {

/// Looks for lost ranks while a store is created: first among the processes of this machine, later
/// also in the control plane. For the thread that creates the store.
class Lookout {
 public:
  using Ask = std::function<std::optional<control::LostRank>()>;
  using Report = std::function<void(const control::LostRank&)>;

  Lookout();

  void also_ask(Ask ask) { asked_.push_back(std::move(ask)); }
  /// Sets where a loss is reported, once, before it is thrown; at first the log.
  void report_to(Report report) { report_ = std::move(report); }
  /// Throws `peer_lost` if a rank is lost.
  void look();

 private:
  std::vector<Ask> asked_;
  Report report_;
  bool reported_ = false;
};

}  // namespace tutti::runtime
