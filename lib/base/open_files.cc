#include "base/open_files.h"

#include <sys/resource.h>

namespace tutti::base {

std::optional<std::size_t> most_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return files.rlim_cur;
}

void raise_most_open_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

/// The kernel gives the lowest free number, so all lower numbers are in use.
bool is_among_last(const Fd& newest, std::size_t kept) {
  const auto most = most_open_files();
  return most && static_cast<std::size_t>(newest.get()) + kept >= *most;
}

}  // namespace tutti::base
