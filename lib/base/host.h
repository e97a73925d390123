#pragma once
#include <string>

namespace tutti::base {

/// This machine's name; "?" where the system does not say.
std::string host_name();

/// The processor's name as the kernel has it, else its architecture, such as "aarch64".
std::string processor_name();

}  // namespace tutti::base
