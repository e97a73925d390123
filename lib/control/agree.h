#pragma once
#include <functional>
#include <string>
#include <vector>

#include "control/control_settings.h"

namespace tutti::control {

/// Collective: every rank takes the same step and learns what the step gave everywhere, by rank. If
/// it throws an Error on any rank it throws on all: a rank's own error there, elsewhere, and
/// where the own one only follows from it, the error that seems to be the cause, with its rank.
std::vector<std::string> agree(const AllGather& gather, const std::function<std::string()>& step);

}  // namespace tutti::control
