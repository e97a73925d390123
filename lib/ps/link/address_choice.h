#pragma once
#include <string>
#include <vector>

namespace tutti::ps {

/// Chooses where the scheduler listens. `root` is the name that all processes are told. `addresses`
/// are the addresses to which it leads on this host, at least one. On the host itself, its name may
/// lead to the loopback interface (on Debian to 127.0.1.1), while on other hosts it leads to the
/// host: then the scheduler listens at all addresses. `of_interface` goes before the others if it
/// is one of `addresses`; empty: none does. `has_secret`: without a secret the job stays on this
/// machine.
std::string listening_address(const std::string& root, const std::vector<std::string>& addresses,
                              const std::string& of_interface, bool has_secret);

/// Where a server is for the workers of other hosts. `local` is its address on its connection to
/// the scheduler, which may be the loopback interface's for the same reason; `here`, its host's,
/// are those at which others may reach it.
std::string server_address(const std::string& root, const std::string& local,
                           const std::vector<std::string>& here, bool has_secret);

}  // namespace tutti::ps
