#include "control/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/failure.h"
#include "tutti/error.h"

namespace tutti::control {
namespace {

struct UnixName {
  sockaddr_un address{};
  socklen_t length = 0;
};

/// An abstract name begins with a zero byte.
UnixName abstract(const std::string& name) {
  UnixName unix_name;
  unix_name.address.sun_family = AF_UNIX;
  base::check(name.size() + 1 < sizeof unix_name.address.sun_path, "an abstract name fits");
  std::memcpy(unix_name.address.sun_path + 1, name.data(), name.size());
  unix_name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return unix_name;
}

base::Fd open_socket(int family) {
  base::Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) throw base::system_failure("open a socket");
  return socket;
}

void wait_ready(const base::Fd& socket, short events, Deadline deadline,
                const std::string& waiting_for) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - base::Clock::now());
    pollfd entry{socket.get(), events, 0};
    const auto limit = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
    const int ready = ::poll(&entry, 1, limit);
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw base::system_failure("poll a socket");
    if (base::Clock::now() >= deadline) {
      throw Error(ErrorCode::timeout,
                  fmt::format("waited too long for {} (create_timeout, TUTTI_CREATE_SECONDS)",
                              waiting_for));
    }
  }
}

sockaddr_storage tcp_address(const std::string& address, int port, socklen_t& length) {
  sockaddr_storage storage{};
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (::inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<std::uint16_t>(port));
    length = sizeof *v4;
  } else {
    base::check(::inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1,
                "an address is IPv4 or IPv6");
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<std::uint16_t>(port));
    length = sizeof *v6;
  }
  return storage;
}

sockaddr* plain(sockaddr_storage& storage) {
  return reinterpret_cast<sockaddr*>(&storage);
}

}  // namespace

base::Fd listen_abstract(const std::string& name) {
  base::Fd socket = open_socket(AF_UNIX);
  UnixName unix_name = abstract(name);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&unix_name.address), unix_name.length) !=
          0 ||
      ::listen(socket.get(), 4096) != 0) {
    throw base::system_failure("listen for the other ranks of this node");
  }
  return socket;
}

base::Fd connect_abstract(const std::string& name) {
  base::Fd socket = open_socket(AF_UNIX);
  UnixName unix_name = abstract(name);
  const int result =
      ::connect(socket.get(), reinterpret_cast<sockaddr*>(&unix_name.address), unix_name.length);
  if (result == 0) return socket;
  if (errno == ECONNREFUSED || errno == ENOENT) return {};
  throw base::system_failure("ask who is on this node");
}

base::Fd listen_tcp(const std::string& address, int& port) {
  socklen_t length = 0;
  sockaddr_storage storage = tcp_address(address, 0, length);
  base::Fd socket = open_socket(storage.ss_family);
  if (::bind(socket.get(), plain(storage), length) != 0 || ::listen(socket.get(), 4096) != 0) {
    throw base::system_failure("listen on " + address);
  }
  if (::getsockname(socket.get(), plain(storage), &length) != 0) {
    throw base::system_failure("learn the port listened on");
  }
  port = ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
  return socket;
}

base::Fd connect_tcp(const std::string& address, int port, Deadline deadline) {
  socklen_t length = 0;
  sockaddr_storage storage = tcp_address(address, port, length);
  const std::string peer = fmt::format("rank 0 at {} port {}", address, port);
  base::Fd socket(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw base::system_failure("open a socket");
  if (::connect(socket.get(), plain(storage), length) != 0 && errno != EINPROGRESS) {
    throw base::system_failure("connect to " + peer);
  }
  wait_ready(socket, POLLOUT, deadline, peer + " to accept a connection");
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0) throw base::system_failure("connect to " + peer, failure);
  return socket;
}

void tune_link(const base::Fd& socket) {
  const int on = 1;
  const unsigned unanswered_ms = 3000;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

base::Fd accept_from(const base::Fd& listener, Deadline deadline, const std::string& waiting_for) {
  wait_ready(listener, POLLIN, deadline, waiting_for);
  base::Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) throw base::system_failure("accept a connection");
  return socket;
}

void send_all(const base::Fd& socket, std::span<const std::byte> data, Deadline deadline,
              const std::string& waiting_for) {
  while (!data.empty()) {
    wait_ready(socket, POLLOUT, deadline, waiting_for);
    const ssize_t count =
        ::send(socket.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      throw base::system_failure("send to " + waiting_for);
    }
    if (count > 0) data = data.subspan(static_cast<std::size_t>(count));
  }
}

void receive_all(const base::Fd& socket, std::span<std::byte> data, Deadline deadline,
                 const std::string& waiting_for) {
  while (!data.empty()) {
    wait_ready(socket, POLLIN, deadline, waiting_for);
    const ssize_t count = ::recv(socket.get(), data.data(), data.size(), MSG_DONTWAIT);
    if (count == 0) {
      throw Error(ErrorCode::internal, "a connection was closed while waiting for " + waiting_for);
    }
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      throw base::system_failure("receive from " + waiting_for);
    }
    if (count > 0) data = data.subspan(static_cast<std::size_t>(count));
  }
}

namespace {

/// A message of one byte with room for one descriptor beside it.
struct Envelope {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};

  Envelope() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
};

}  // namespace

void send_descriptor(const base::Fd& socket, const base::Fd& descriptor) {
  Envelope envelope;
  cmsghdr* const head = CMSG_FIRSTHDR(&envelope.header);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = descriptor.get();
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  if (::sendmsg(socket.get(), &envelope.header, MSG_NOSIGNAL) != 1) {
    throw base::system_failure("pass a descriptor to another rank of this node");
  }
}

base::Fd receive_descriptor(const base::Fd& socket, Deadline deadline,
                            const std::string& waiting_for) {
  wait_ready(socket, POLLIN, deadline, waiting_for);
  Envelope envelope;
  const ssize_t count = ::recvmsg(socket.get(), &envelope.header, MSG_CMSG_CLOEXEC);
  if (count < 0) throw base::system_failure("receive a descriptor from " + waiting_for);
  const cmsghdr* const head = CMSG_FIRSTHDR(&envelope.header);
  if (count == 0 || head == nullptr || head->cmsg_type != SCM_RIGHTS) {
    throw Error(ErrorCode::internal, "no descriptor came from " + waiting_for);
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return base::Fd(fd);
}

}  // namespace tutti::control
