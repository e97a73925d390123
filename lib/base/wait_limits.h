#pragma once
#include <string>

#include "base/clock.h"

namespace tutti::base {

/// A length of time that somebody chose, in full: "0.5 s", "3 s", "1800 s". It is not for measured
/// times.
std::string seconds_text(Clock::duration time);

// The limit of a wait, as errors give it, with the option that sets it: "3 s (key_timeout,
// TUTTI_TIMEOUT_SECONDS)".
std::string key_limit(Clock::duration limit);
std::string create_limit(Clock::duration limit);
std::string heartbeat_limit(Clock::duration limit);

}  // namespace tutti::base
