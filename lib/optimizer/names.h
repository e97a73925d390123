#pragma once
#include <string_view>

#include "tutti/key.h"
#include "tutti/optimizer.h"

/// Names of rules, parameters and values travel in messages, so their length is limited. All
/// functions throw `invalid_argument` for a name that is too long.
namespace tutti::optimizer {

/// `what` is a word for the error, such as "optimizer".
void check_name(std::string_view what, std::string_view name);
void check_name(const Key& key);
void check_names(const Optimizer& optimizer);

}  // namespace tutti::optimizer
