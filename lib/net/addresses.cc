// Addresses of hosts and of sockets.
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "base/failure.h"
#include "base/printable.h"
#include "net/sockets.h"

namespace tutti::net {
namespace {

std::string numeric(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST];
  const int error = ::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  base::check(error == 0, "an address can be written as a number");
  return text;
}

}  // namespace

std::string local_address(const base::Fd& socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    throw base::system_failure("ask for a socket's address");
  }
  return numeric(reinterpret_cast<sockaddr*>(&name), size);
}

std::string peer_address(const base::Fd& socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) return "";
  if (name.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(name);
    return fmt::format("{}:{}", numeric(reinterpret_cast<sockaddr*>(&name), size),
                       ntohs(v4.sin_port));
  }
  if (name.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(name);
  return fmt::format("[{}]:{}", numeric(reinterpret_cast<sockaddr*>(&name), size),
                     ntohs(v6.sin6_port));
}

std::vector<std::string> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no host {} is known: {}", base::quoted(host), ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    addresses.push_back(numeric(one->ai_addr, one->ai_addrlen));
  }
  return addresses;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace tutti::net
