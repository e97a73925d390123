#pragma once

#include "tutti/export.h"

namespace tutti {

/// "0.1.0". Ranks of one store must run the same version.
TUTTI_EXPORT const char* version();

}  // namespace tutti
