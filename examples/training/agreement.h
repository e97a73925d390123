#pragma once
#include "dataset/images.h"
#include "training/exchange.h"
#include "training/settings.h"

namespace training {

/// Throws `invalid_argument`, the same on every rank, if ranks were started with different options
/// or data sets: they would make different numbers of steps and wait for each other in vain.
/// Collective, blocks.
void check_agreement(const Settings& settings, const dataset::Dataset& data, const Worker& worker,
                     Exchange& exchange);

}  // namespace training
