#include "base/failure.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <utility>

namespace tutti::base {
namespace {

/// For errors which say that a resource is used up: the limit, and what to raise. Empty for other
/// errors.
std::string advice(int number) {
  rlimit files{};
  switch (number) {
    case EMFILE:
      ::getrlimit(RLIMIT_NOFILE, &files);
      return "; this process may have " + std::to_string(files.rlim_cur) +
             " files and sockets open: raise it with ulimit -n (at most " +
             std::to_string(files.rlim_max) + " without privileges)";
    case ENFILE:
      return "; the machine's files and sockets are used up: raise fs.file-max (sysctl)";
    case ENOMEM:
      return "; memory has run out: run fewer ranks on this machine, or raise the memory limit of "
             "the job (ulimit -v, its cgroup)";
    default:
      return {};
  }
}

}  // namespace

Error system_failure(const std::string& what) {
  return system_failure(what, errno);
}

Error system_failure(const std::string& what, int number) {
  // This uses fmt, which is not built for a sanitizer. The sanitizer's check of the call would need
  // a descriptor.
  fmt::memory_buffer said;
  fmt::format_system_error(said, number, ("cannot " + what).c_str());
  return {ErrorCode::internal, fmt::to_string(said) + advice(number)};
}

Error reworded(const Error& error, const std::string& message) {
  const auto ranks = error.ranks();
  Error::Subject subject{.key = {}, .ranks = {ranks.begin(), ranks.end()}};
  if (error.key() != nullptr) subject.key = *error.key();
  return {error.code(), message, std::move(subject)};
}

void report_broken(const char* invariant) {
  throw Error(ErrorCode::internal,
              std::string("broken invariant in tutti, please report it: ") + invariant);
}

}  // namespace tutti::base
