#pragma once
#include <string>

namespace tutti::base {

/// This machine's name; "?" where the system does not say.
std::string host_name();

/// Equal for the processes of one host, whatever the host's name is, and different for any two
/// hosts: the boot and the network name space. The host's name where the system does not say.
std::string host_identity();

/// The processor's name as the kernel has it, else its architecture, such as "aarch64".
std::string processor_name();

}  // namespace tutti::base
