#pragma once
#include <string>
#include <vector>

#include "ps/protocol/messages.h"

namespace tutti::ps {

/// Says why the states of a job's servers are not of the same moment, or may not be. Empty if they
/// are. If the job ended in order, each state is the last one, however its keys were used.
std::string difference_of(const std::vector<Moment>& moments);

}  // namespace tutti::ps
