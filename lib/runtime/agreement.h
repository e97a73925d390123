#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tutti/options.h"

namespace tutti::runtime {

/// Name and value, in a fixed order.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// The settings that must be equal on every rank of a store: the version, the level of the element
/// kernels, and the options marked [agreed].
Facts facts_to_agree_on(const Options& options);

std::string pack(const Facts& facts);

/// `everyone`: packed facts by rank. Throws `mismatch` naming each fact that differs, who says
/// what, and what to do. The same text on every rank.
void check_equal(const Facts& mine, const std::vector<std::string>& everyone);

}  // namespace tutti::runtime
