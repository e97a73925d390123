#pragma once
#include <string_view>

#include "tutti/key.h"
#include "tutti/optimizer.h"

/// What names a rule, a parameter or a value travels in messages, which take no longer ones. All of
/// them throw `invalid_argument`.
namespace tutti::optimizer {

/// `what`: for the error, such as "optimizer".
void check_name(std::string_view what, std::string_view name);
void check_name(const Key& key);
void check_names(const Optimizer& optimizer);

}  // namespace tutti::optimizer
