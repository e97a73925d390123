#include "base/failure.h"

#include <cerrno>
#include <system_error>

namespace tutti::base {

Error system_failure(const std::string& what) {
  return system_failure(what, errno);
}

Error system_failure(const std::string& what, int number) {
  return {ErrorCode::internal, "cannot " + what + ": " + std::generic_category().message(number)};
}

void report_broken(const char* invariant) {
  throw Error(ErrorCode::internal,
              std::string("broken invariant in tutti, please report it: ") + invariant);
}

}  // namespace tutti::base
