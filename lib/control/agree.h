#pragma once
#include <functional>
#include <string>
#include <vector>

#include "control/control_settings.h"

namespace tutti::control {

/// Collective: every rank takes the same step, and gets the result of the step on every rank, by
/// rank. If the step throws an Error on any rank, this throws on all ranks. A rank whose step threw
/// throws its own error. The other ranks throw the error that seems to be the cause, with its rank;
/// so does a rank whose own error only follows from that one.
std::vector<std::string> agree(const AllGather& gather, const std::function<std::string()>& step);

}  // namespace tutti::control
