#pragma once
#include <string>

#include "base/fd.h"

namespace tutti::base {

/// A regular file that has been opened, or the reason why it has not.
struct RegularFile {
  Fd file;
  std::string failure;  ///< such as "Permission denied"; empty: it is open
};

/// Opens a path at which others may have put something else. It does not open a device or a pipe,
/// and does not wait for a pipe's other end. `flags` are those of open(2). With O_NOFOLLOW it does
/// not open a link either. If it creates the file, all users whom the umask allows may read and
/// write it.
RegularFile open_regular(const std::string& path, int flags);
/// Does the same for a path that begins in this folder.
RegularFile open_regular(const Fd& folder, const std::string& path, int flags);

}  // namespace tutti::base
