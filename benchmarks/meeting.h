#pragma once
#include <vector>

#include "tutti/kvstore.h"

namespace tutti::bench {

/// The maximum or the sum of all workers' numbers, element by element. Collective. It uses
/// broadcasts, because servers with an optimizer would take pushed numbers for gradients.
std::vector<double> over_workers(KVStore& store, const std::vector<double>& mine, ReduceOp op);

}  // namespace tutti::bench
