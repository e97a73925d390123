#pragma once
#include <sys/stat.h>

#include <string>

namespace tutti::base {

/// Says why another user may have changed this file or folder, and what to do: "it belongs to user
/// 1000, and this process runs as user 0; ...". Empty if only this user and root may change it.
std::string exposure(const struct stat& status);

}  // namespace tutti::base
