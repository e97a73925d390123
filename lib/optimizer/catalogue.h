#pragma once
#include <memory>

#include "optimizer/parameters.h"
#include "optimizer/rule.h"
#include "tutti/optimizer.h"

namespace tutti::optimizer {

/// A rule, and the settings that all rules have.
struct Chosen {
  std::unique_ptr<const Rule> rule;
  double learning_rate = 0;
  double wd = 0;
  bool multi_precision = false;
};

/// Throws `invalid_argument` for an unknown rule, with a list of the known ones, for an unknown
/// parameter, and for a parameter that is out of its range.
Chosen choose(const Optimizer& optimizer);

}  // namespace tutti::optimizer
