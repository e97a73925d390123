#pragma once
#include <string>
#include <vector>

#include "ps/protocol/messages.h"

namespace tutti::ps {

/// Why the states of a job's servers are not of one moment, or may not be; empty: they are. Where
/// the job ended in order each of them is the last, whatever its keys were used for.
std::string difference_of(const std::vector<Moment>& moments);

}  // namespace tutti::ps
