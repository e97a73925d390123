#pragma once
#include <string>

#include "tutti/error.h"

namespace tutti::base {

/// `internal`: "cannot <what>: <strerror(errno)>", and where files or memory have run out which
/// limit to raise. Call it right after the failed system call.
Error system_failure(const std::string& what);
/// The same for calls that return the number instead of setting errno.
Error system_failure(const std::string& what, int number);

/// Throws `internal`, with the text.
[[noreturn]] void report_broken(const char* invariant);
/// For invariants of tutti itself.
inline void check(bool holds, const char* invariant) {
  if (!holds) [[unlikely]]
    report_broken(invariant);
}

}  // namespace tutti::base
