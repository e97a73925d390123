#include "net/interfaces.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>

#include "base/failure.h"
#include "base/names.h"
#include "base/printable.h"
#include "tutti/error.h"

namespace tutti::net {
namespace {

struct Interface {
  std::string name;
  bool up = false;
  bool loopback = false;
  std::vector<std::string> v4;
  std::vector<std::string> v6;

  const std::vector<std::string>& preferred() const { return v4.empty() ? v6 : v4; }
};

void add_address(Interface& to, const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    to.v4.emplace_back(::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text));
  } else if (address.sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    // A link-local address cannot be used on another host, which has other interfaces.
    if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) != 0) return;
    to.v6.emplace_back(::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text));
  }
}

std::vector<Interface> interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) throw base::system_failure("list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    auto at = std::find_if(found.begin(), found.end(),
                           [&](const Interface& known) { return known.name == entry->ifa_name; });
    if (at == found.end())
      at = found.insert(found.end(), Interface{entry->ifa_name, {}, {}, {}, {}});
    at->up = (entry->ifa_flags & IFF_UP) != 0;
    at->loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (entry->ifa_addr != nullptr) add_address(*at, *entry->ifa_addr);
  }
  return found;
}

std::string list(const std::vector<Interface>& all) {
  std::string text;
  for (const Interface& one : all) {
    const auto& addresses = one.preferred();
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", one.name,
                        !one.up             ? "down"
                        : addresses.empty() ? "no address"
                                            : addresses.front());
  }
  return text;
}

std::vector<std::string> address_of(const std::string& name, const std::vector<Interface>& all) {
  std::vector<std::string_view> names;
  for (const Interface& one : all) {
    if (one.name == name && one.up && !one.preferred().empty()) return {one.preferred().front()};
    names.push_back(one.name);
  }
  const bool exists = std::find(names.begin(), names.end(), name) != names.end();
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("network interface {} (DMLC_INTERFACE) {}{}; this host has: {}",
                  base::quoted(name), exists ? "is down or has no address" : "does not exist",
                  exists ? "" : base::suggestion(name, names), list(all)));
}

}  // namespace

std::vector<std::string> reachable_addresses(const std::string& interface) {
  const std::vector<Interface> all = interfaces();
  if (!interface.empty()) return address_of(interface, all);
  std::vector<std::string> addresses;
  for (const bool loopback : {false, true}) {
    for (const Interface& one : all) {
      if (!one.up || one.loopback != loopback || one.preferred().empty()) continue;
      addresses.push_back(one.preferred().front());
    }
    if (!addresses.empty()) return addresses;
  }
  throw Error(ErrorCode::internal,
              fmt::format("no network interface has an address; this host has: {}", list(all)));
}

}  // namespace tutti::net
