#pragma once
#include <string>
#include <vector>

#include "tutti/error.h"

namespace tutti::base {

/// An error on its way to the process that throws it.
struct Failure {
  ErrorCode code = ErrorCode::internal;
  std::string text;
  std::vector<int> ranks{};  ///< as in `Error::ranks`

  friend bool operator==(const Failure&, const Failure&) = default;
};

/// An `internal` error: "cannot <what>: <strerror(errno)>". If files or memory have run out, it
/// also says which limit to raise. Call it right after the failed system call.
Error system_failure(const std::string& what);
/// Does the same for functions that return the error number instead of setting errno.
Error system_failure(const std::string& what, int number);

/// The same error in other words. It keeps its key and ranks.
Error reworded(const Error& error, const std::string& message);

/// Throws `internal` with the name of the broken invariant.
[[noreturn]] void report_broken(const char* invariant);
/// Checks an invariant of tutti itself, and not an argument of its user.
inline void check(bool holds, const char* invariant) {
  if (!holds) [[unlikely]]
    report_broken(invariant);
}

}  // namespace tutti::base
