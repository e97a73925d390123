#pragma once
#include <memory>

namespace tutti::base {

/// Keeps the object until the process ends, because a device or a library that does not answer may
/// still use its memory. The object stays reachable, so that it counts as no leak. Thread-safe.
void keep_for_good(std::shared_ptr<const void> owned);

}  // namespace tutti::base
