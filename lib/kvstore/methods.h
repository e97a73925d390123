#pragma once
#include <string_view>

#include "kvstore/backend.h"

namespace tutti {

/// Throws `unsupported` unless the type offers the method. The error names the method, the type and
/// the call to make instead.
void require(const Traits& traits, Method method);

/// Throws `invalid_argument`, which says that the setting must be made before the first tensor.
/// `why` is a reason such as ": ranks would differ".
[[noreturn]] void refuse_late(const SettingCall& setting, std::string_view why);

/// Throws `aborted`, which says that the method was called on a closed store.
[[noreturn]] void refuse_closed(std::string_view method);

}  // namespace tutti
