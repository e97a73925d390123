#pragma once
#include <string>
#include <vector>

namespace tutti::ps {

/// Where the scheduler listens. `root` is what all processes are told, `addresses` are those that
/// it leads to on this host, one at least. A host's own name may lead to its loopback interface (as
/// Debian has it, to 127.0.1.1), and elsewhere to the host: then the scheduler listens at all
/// addresses. `of_interface`, if one of `addresses`, goes before the others; empty: none does.
/// `has_secret`: without one the job stays on this machine.
std::string listening_address(const std::string& root, const std::vector<std::string>& addresses,
                              const std::string& of_interface, bool has_secret);

/// Where a server is for the workers of other hosts. `local` is its address on its connection to
/// the scheduler, which may be the loopback interface's for the same reason; `here`, its host's,
/// are those at which others may reach it.
std::string server_address(const std::string& root, const std::string& local,
                           const std::vector<std::string>& here, bool has_secret);

}  // namespace tutti::ps
