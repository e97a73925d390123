#pragma once

#include "tutti/export.h"

namespace tutti {

/// The version of this library, such as "0.1.0". All ranks of a store must run the same version.
TUTTI_EXPORT const char* version();

/// Meson's build type of this library, such as "release" or "debugoptimized". Use and measure a
/// "release".
TUTTI_EXPORT const char* build_type();

}  // namespace tutti
