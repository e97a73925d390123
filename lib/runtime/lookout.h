#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "control/loss.h"

namespace tutti::runtime {

/// Who looks out for lost ranks while a store is created: first the processes of this machine, then
/// the control plane too. For the thread that creates the store.
class Lookout {
 public:
  using Ask = std::function<std::optional<control::LostRank>()>;
  using Report = std::function<void(const control::LostRank&)>;

  Lookout();

  void also_ask(Ask ask) { asked_.push_back(std::move(ask)); }
  /// Where a loss is written before it is thrown, once; at first the log.
  void report_to(Report report) { report_ = std::move(report); }
  /// Throws `peer_lost` when a rank is lost.
  void look();

 private:
  std::vector<Ask> asked_;
  Report report_;
  bool reported_ = false;
};

}  // namespace tutti::runtime
