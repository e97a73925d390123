#include "ps/link/address_choice.h"

#include <algorithm>

#include "net/sockets.h"

namespace tutti::ps {
namespace {

/// Whether the name is neither a number of the loopback interface nor a name that each host gives
/// itself.
bool names_a_host(const std::string& root) {
  return !net::is_loopback(root) && !root.starts_with("localhost") && !root.starts_with("ip6-");
}

}  // namespace

std::string listening_address(const std::string& root, const std::vector<std::string>& addresses,
                              const std::string& of_interface, bool has_secret) {
  if (std::ranges::find(addresses, of_interface) != addresses.end()) return of_interface;
  const std::string& first = addresses.front();
  if (!has_secret || !net::is_loopback(first) || !names_a_host(root)) return first;
  return first.find(':') == first.npos ? "0.0.0.0" : "::";
}

std::string server_address(const std::string& root, const std::string& local,
                           const std::vector<std::string>& here, bool has_secret) {
  const bool is_hidden = has_secret && net::is_loopback(local) && names_a_host(root);
  return is_hidden ? here.front() : local;
}

}  // namespace tutti::ps
