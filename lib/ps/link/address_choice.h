#pragma once
#include <string>
#include <vector>

namespace tutti::ps {

/// Chooses the address at which the scheduler listens.
/// - `root` is the name that all processes are told.
/// - `addresses` are the addresses to which the name leads on this host. There is at least one.
/// - `of_interface` is preferred if it is one of `addresses`. If it is empty, none is preferred.
/// - `has_secret`: without a secret the job stays on this machine.
///
/// On the host itself, its name may lead to the loopback interface (on Debian to 127.0.1.1), while
/// on other hosts it leads to the host. Then the scheduler listens at all addresses.
std::string listening_address(const std::string& root, const std::vector<std::string>& addresses,
                              const std::string& of_interface, bool has_secret);

/// Chooses the address of a server for the workers of other hosts. `local` is its address on its
/// connection to the scheduler. That may be an address of the loopback interface, for the same
/// reason. `here` holds the addresses at which others may reach its host.
std::string server_address(const std::string& root, const std::string& local,
                           const std::vector<std::string>& here, bool has_secret);

}  // namespace tutti::ps
