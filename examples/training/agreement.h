#pragma once
#include "dataset/images.h"
#include "training/exchange.h"
#include "training/settings.h"

namespace training {

/// Throws `invalid_argument` if ranks were started with different options or data sets. They would
/// make different numbers of steps, and wait for each other in vain. The error is the same on every
/// rank. Collective, blocks.
void check_agreement(const Settings& settings, const dataset::Dataset& data, const Worker& worker,
                     Exchange& exchange);

}  // namespace training
