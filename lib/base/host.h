#pragma once
#include <string>

namespace tutti::base {

/// This machine's name. "?" if the system does not tell it.
std::string host_name();

/// The processor's name as the kernel has it. If the kernel has none, the architecture, such as
/// "aarch64".
std::string processor_name();

}  // namespace tutti::base
