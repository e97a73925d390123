#pragma once
#include <memory>

namespace tutti::base {

/// Never destroys it: a device or a library that does not answer may still use its memory. Keeps it
/// reachable, so that it is no leak. Thread-safe.
void keep_for_good(std::shared_ptr<const void> owned);

}  // namespace tutti::base
