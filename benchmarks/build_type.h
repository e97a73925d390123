#pragma once
#include <string>

#include "tutti/version.h"

namespace tutti::bench {

/// A line for the head of a table: how the library was built, and a warning if such a build should
/// not be measured.
inline std::string build_type_line() {
  const std::string type = build_type();
  return "# build type: " + type +
         (type == "release" ? "\n"
                            : ", slower than what users get; measure a build of meson setup "
                              "--buildtype=release\n");
}

}  // namespace tutti::bench
