// TCP sockets, and waiting for any socket.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/failure.h"
#include "net/poller.h"
#include "net/sockets.h"

namespace tutti::net {
namespace {

struct NumericAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

NumericAddress numeric_address(const std::string& text, std::uint16_t port) {
  NumericAddress address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address.size = sizeof v4;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address.size = sizeof v6;
  } else {
    throw Error(ErrorCode::internal, "'" + text + "' is no numeric network address");
  }
  return address;
}

int new_tcp_socket(int family) {
  return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/// Whether this process has no room for another connection, wherever that leads.
bool lacks_room(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/// For example, a network is down, or this host does not use the family of an address.
[[noreturn]] void throw_unreachable(const std::string& what) {
  const int error = errno;
  const Error failure = base::system_failure(what, error);
  if (lacks_room(error)) throw failure;
  throw Error(ErrorCode::peer_lost, failure.what());
}

base::Fd listen_at(const NumericAddress& address, const std::string& text) {
  base::Fd socket(new_tcp_socket(address.family()));
  if (!socket) throw base::system_failure("create a TCP socket");
  // The process may listen again at a port whose last connections linger.
  const int reuse = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  if (::bind(socket.get(), address.get(), address.size) != 0) {
    throw base::system_failure("bind a TCP port of " + text);
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) {
    throw base::system_failure("listen on a TCP port of " + text);
  }
  return socket;
}

void set_option(const base::Fd& socket, int level, int name, int value) {
  if (::setsockopt(socket.get(), level, name, &value, sizeof value) != 0) {
    throw base::system_failure("set an option of a TCP socket");
  }
}

void set_option(const base::Fd& socket, int name, int value) {
  set_option(socket, IPPROTO_TCP, name, value);
}

bool wait_for(const base::Fd& fd, short events, const base::Patience& patience) {
  pollfd entry{fd.get(), events, 0};
  for (;;) {
    const int count = ::poll(&entry, 1, milliseconds_until(patience.next_look()));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) throw base::system_failure("wait for a socket");
    patience.look_now();
    if (patience.over()) return false;
  }
}

}  // namespace

base::Fd listen_tcp(const std::string& address, std::uint16_t port) {
  return listen_at(numeric_address(address, port), address);
}

base::Fd listen_tcp_everywhere(const std::string& like) {
  const std::string any = numeric_address(like, 0).family() == AF_INET ? "0.0.0.0" : "::";
  return listen_tcp(any);
}

base::Fd adopt_listener(int number) {
  int listens = 0;
  int family = 0;
  socklen_t size = sizeof listens;
  const bool is_ours = ::getsockopt(number, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 &&
                       listens == 1 &&
                       ::getsockopt(number, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 &&
                       (family == AF_INET || family == AF_INET6);
  if (!is_ours) {
    throw Error(ErrorCode::invalid_argument,
                "descriptor " + std::to_string(number) + " is no TCP socket that listens");
  }
  base::Fd socket(number);
  if (::fcntl(number, F_SETFD, FD_CLOEXEC) != 0 || ::fcntl(number, F_SETFL, O_NONBLOCK) != 0) {
    throw base::system_failure("take over a TCP socket");
  }
  return socket;
}

std::uint16_t port_of(const base::Fd& listener) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    throw base::system_failure("ask for a socket's port");
  }
  return ntohs(name.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(name).sin_port
                                         : reinterpret_cast<sockaddr_in6&>(name).sin6_port);
}

base::Fd start_connecting(const std::string& address, std::uint16_t port,
                          const std::string& source) {
  const NumericAddress to = numeric_address(address, port);
  base::Fd socket(new_tcp_socket(to.family()));
  if (!socket) throw_unreachable("connect to " + address);
  if (!source.empty()) {
    const NumericAddress from = numeric_address(source, 0);
    if (::bind(socket.get(), from.get(), from.size) != 0) {
      throw_unreachable("connect from " + source);
    }
  }
  if (::connect(socket.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    throw_unreachable("connect to " + address);
  }
  return socket;
}

void check_connected(const base::Fd& socket) {
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0) throw Error(ErrorCode::peer_lost, std::generic_category().message(failure));
}

base::Fd accept_one(const base::Fd& listener) {
  base::Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  // All other errors concern one caller only, which gave up or cannot be reached any more.
  const bool ours = lacks_room(errno) || errno == EBADF || errno == EINVAL;
  if (!socket && ours) throw base::system_failure("accept a connection");
  return socket;
}

void tune_data_link(const base::Fd& socket) {
  set_option(socket, TCP_NODELAY, 1);
  set_option(socket, TCP_KEEPIDLE, 60);  // seconds
  set_option(socket, TCP_KEEPINTVL, 15);
  set_option(socket, TCP_KEEPCNT, 4);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

void tune_link(const base::Fd& socket, std::chrono::milliseconds unacknowledged) {
  constexpr std::chrono::milliseconds most = std::chrono::hours(24);
  set_option(socket, TCP_NODELAY, 1);
  set_option(socket, TCP_USER_TIMEOUT, static_cast<int>(std::min(unacknowledged, most).count()));
}

bool wait_readable(const base::Fd& fd, const base::Patience& patience) {
  return wait_for(fd, POLLIN, patience);
}

bool wait_writable(const base::Fd& fd, const base::Patience& patience) {
  return wait_for(fd, POLLOUT, patience);
}

}  // namespace tutti::net
