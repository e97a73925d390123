#pragma once

#include "tutti/export.h"

namespace tutti {

/// "0.1.0". Ranks of one store must run the same version.
TUTTI_EXPORT const char* version();

/// Meson's build type of this library: "release" for what is used and measured, else such as
/// "debugoptimized".
TUTTI_EXPORT const char* build_type();

}  // namespace tutti
