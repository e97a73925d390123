#pragma once
#include <string_view>

#include "kvstore/backend.h"

namespace tutti {

/// Throws `unsupported` naming the method, the type and what to call instead, unless the type
/// offers the method.
void require(const Traits& traits, Method method);

/// Throws `invalid_argument`: the setting must be made before the first tensor, and `why`, such as
/// ": ranks would differ".
[[noreturn]] void refuse_late(const SettingCall& setting, std::string_view why);

/// Throws `aborted`: the method was called on a store that is closed.
[[noreturn]] void refuse_closed(std::string_view method);

}  // namespace tutti
