#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tutti/options.h"

namespace tutti::runtime {

/// Pairs of a name and a value, in a fixed order.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// The settings that must be equal on all ranks of a store: the version, the SIMD level of the
/// element kernels, and the options marked [agreed].
Facts facts_to_agree_on(const Options& options);

std::string pack(const Facts& facts);

/// `everyone` holds the packed facts of each rank. If they differ, throws `mismatch` with the same
/// text on every rank. The text names each fact that differs, the value of each rank, and what to
/// do.
void check_equal(const Facts& mine, const std::vector<std::string>& everyone);

}  // namespace tutti::runtime
