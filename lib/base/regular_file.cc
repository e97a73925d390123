#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::base {

RegularFile open_regular(const std::string& path, int flags) {
  constexpr mode_t for_all = 0666;
  Fd file(::open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, for_all));
  const int error = errno;
  struct stat status {};
  const int follow = (flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  const int found =
      file ? ::fstat(file.get(), &status) : ::fstatat(AT_FDCWD, path.c_str(), &status, follow);
  // The errno of a pipe or a link, "No such device" or "Too many levels", would mislead.
  if (found == 0 && !S_ISREG(status.st_mode) && (file || error != EISDIR)) {
    return {{}, "it is no regular file"};
  }
  if (!file) return {{}, std::strerror(error)};
  return {std::move(file), ""};
}

}  // namespace tutti::base
