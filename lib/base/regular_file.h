#pragma once
#include <string>

#include "base/fd.h"

namespace tutti::base {

/// A regular file that has been opened, or why it has not.
struct RegularFile {
  Fd file;
  std::string failure;  ///< such as "Permission denied"; empty: it is open
};

/// Opens a path at which others may have put something else: a device or a pipe is not opened, and
/// the call does not wait for a pipe's other end. `flags` as of open(2); with O_NOFOLLOW a link is
/// not opened either. If it creates the file, all users may read and write it whom the umask
/// allows.
RegularFile open_regular(const std::string& path, int flags);
/// The same for a path that begins in this folder.
RegularFile open_regular(const Fd& folder, const std::string& path, int flags);

}  // namespace tutti::base
