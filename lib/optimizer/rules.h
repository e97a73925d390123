#pragma once
#include <memory>

#include "optimizer/parameters.h"
#include "optimizer/rule.h"

/// All rules. `include/tutti/optimizer.h` gives their formulas. Their parameters have been checked.
namespace tutti::optimizer {

std::unique_ptr<const Rule> make_sgd(const Parameters& parameters);
std::unique_ptr<const Rule> make_nag(const Parameters& parameters);
std::unique_ptr<const Rule> make_adam(const Parameters& parameters);
std::unique_ptr<const Rule> make_adamw(const Parameters& parameters);
std::unique_ptr<const Rule> make_adagrad(const Parameters& parameters);
std::unique_ptr<const Rule> make_rmsprop(const Parameters& parameters);
std::unique_ptr<const Rule> make_lamb(const Parameters& parameters);

}  // namespace tutti::optimizer
