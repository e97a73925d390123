#pragma once
#include "kvstore/backend.h"

namespace tutti {

/// Finds the errors in a send or a receive that this rank can see alone. Throws `invalid_argument`
/// or `unsupported`. The error names the ranks and what to do.
void check(const PeerRequest& request, const Traits& traits);

}  // namespace tutti
