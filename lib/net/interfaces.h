#pragma once
#include <string>
#include <vector>

namespace tutti::net {

/// The numeric addresses at which other nodes may reach this host, in the order in which to try
/// them.
///
/// With a name ("eth0"): one address of that interface, IPv4 if it has any. Throws
/// `invalid_argument`, with a list of the interfaces, if it does not exist or has no usable
/// address. Without a name: one address of every interface that is up. The loopback counts only if
/// there is no other.
std::vector<std::string> reachable_addresses(const std::string& interface);

}  // namespace tutti::net
