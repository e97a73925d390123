#pragma once
#include <string>

#include "tutti/error.h"

namespace tutti::base {

/// `internal`: "cannot <what>: <strerror(errno)>". Call it right after the failed system call.
Error system_failure(const std::string& what);
/// The same for calls that return the number instead of setting errno.
Error system_failure(const std::string& what, int number);

/// Throws `internal` with the text when an invariant of tutti itself is broken.
void check(bool holds, const char* invariant);

}  // namespace tutti::base
