#include "base/exposure.h"

#include <fmt/format.h>
#include <unistd.h>

namespace tutti::base {

std::string exposure(const struct stat& status) {
  if (status.st_uid != ::geteuid()) {
    return fmt::format(
        "it belongs to user {}, and this process runs as user {}; name one of your "
        "own",
        status.st_uid, ::geteuid());
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return "";
  return fmt::format(
      "its mode is {:04o}, so other users may change it; if you trust what it has, "
      "take that right from them: chmod go-w",
      status.st_mode & 07777U);
}

}  // namespace tutti::base
