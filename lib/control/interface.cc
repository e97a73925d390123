#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "control/socket.h"
#include "tutti/error.h"

namespace tutti::control {
namespace {

struct Interface {
  std::string address;
  bool usable = false;  ///< up, and no loopback
};

std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
                sizeof text);
  }
  return text;
}

/// By name; those with an IPv4 address.
std::map<std::string, Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw base::system_failure("list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::map<std::string, Interface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    const bool usable = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    found.try_emplace(entry->ifa_name, Interface{address_text(entry->ifa_addr), usable});
  }
  return found;
}

}  // namespace

std::string address_of_interface(const std::string& interface) {
  const auto found = interfaces();
  if (!interface.empty()) {
    if (const auto it = found.find(interface); it != found.end()) return it->second.address;
    std::vector<std::string> names;
    for (const auto& [name, unused] : found) names.push_back(name);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no network interface is called '{}' (DMLC_INTERFACE); there are {}",
                            interface, fmt::join(names, ", ")));
  }
  for (const auto& [name, entry] : found) {
    if (entry.usable) return entry.address;
  }
  return "127.0.0.1";
}

}  // namespace tutti::control
