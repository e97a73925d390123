#pragma once
#include <string>

namespace tutti::base {

/// This machine's name. "?" if the system does not tell it.
std::string host_name();

/// Equal for the processes of one host, whatever the host calls itself, and different for any two
/// hosts: the boot and the network name space. The host's name if the system does not tell these.
std::string host_identity();

/// The processor's name as the kernel has it. If the kernel has none, the architecture, such as
/// "aarch64".
std::string processor_name();

}  // namespace tutti::base
