#pragma once
#include <string>

#include "kvstore/backend.h"

namespace tutti {

/// Throws `unsupported` naming the method, the type and what to call instead, unless the type
/// offers the method.
void require(const Traits& traits, Method method);

}  // namespace tutti
