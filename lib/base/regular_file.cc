#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::base {
namespace {

RegularFile opened(int folder, const std::string& path, int flags) {
  constexpr mode_t for_all = 0666;
  Fd file(::openat(folder, path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, for_all));
  const int error = errno;
  struct stat status {};
  const int follow = (flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  const int found =
      file ? ::fstat(file.get(), &status) : ::fstatat(folder, path.c_str(), &status, follow);
  // The errno of a pipe or a link, "No such device" or "Too many levels", would be misleading.
  if (found == 0 && !S_ISREG(status.st_mode) && (file || error != EISDIR)) {
    return {{}, "it is no regular file"};
  }
  if (!file) return {{}, std::strerror(error)};
  return {std::move(file), ""};
}

}  // namespace

RegularFile open_regular(const std::string& path, int flags) {
  return opened(AT_FDCWD, path, flags);
}

RegularFile open_regular(const Fd& folder, const std::string& path, int flags) {
  return opened(folder.get(), path, flags);
}

}  // namespace tutti::base
