#pragma once
#include <string_view>
#include <vector>

#include "ps/protocol/messages.h"

namespace tutti::ps {

/// Says why a call waits: "worker 2 has not made its push of key 'w'". The workers are in ascending
/// order.
Failure not_made(std::vector<int> workers, std::string_view what);

}  // namespace tutti::ps
