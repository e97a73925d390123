#pragma once
#include <sys/stat.h>

#include <string>

namespace tutti::base {

/// Why another user may have changed this file or folder, such as "it belongs to user 1000, and
/// this process runs as user 0; ...", and what to do. Empty: nobody but root may.
std::string exposure(const struct stat& status);

}  // namespace tutti::base
