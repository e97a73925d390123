#pragma once
#include <functional>
#include <string>
#include <vector>

#include "control/control_settings.h"

namespace tutti::control {

/// Collective: every rank takes the same step. Returns the results of all ranks, by rank. If the
/// step throws an Error on any rank, this function throws on all ranks. A rank whose step threw
/// throws its own error. The other ranks throw the error that seems to be the cause, with its rank.
/// A rank whose own error seems to follow from that cause throws the cause, too.
std::vector<std::string> agree(const AllGather& gather, const std::function<std::string()>& step);

}  // namespace tutti::control
