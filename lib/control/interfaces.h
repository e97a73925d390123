#pragma once
#include <string>
#include <vector>

namespace tutti::control {

/// Numeric addresses of this host at which other nodes may reach it, in the order to try them.
///
/// With a name ("eth0"): that interface's address alone, IPv4 before IPv6; throws
/// `invalid_argument`, listing the interfaces there are, when it does not exist or has no usable
/// address. Without: one of every interface that is up; the loopback only when there is no other.
std::vector<std::string> reachable_addresses(const std::string& interface);

}  // namespace tutti::control
