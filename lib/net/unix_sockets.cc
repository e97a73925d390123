// Abstract Unix sockets: finding the ranks that share the machine, and passing descriptors.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/failure.h"
#include "net/poller.h"
#include "net/sockets.h"
#include "tutti/error.h"

namespace tutti::net {
namespace {

struct AbstractAddress {
  sockaddr_un name{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

/// A leading zero byte puts the name into the abstract name space.
AbstractAddress abstract_address(const std::string& name) {
  AbstractAddress address;
  address.name.sun_family = AF_UNIX;
  base::check(name.size() + 1 < sizeof address.name.sun_path, "abstract socket names are short");
  std::copy(name.begin(), name.end(), address.name.sun_path + 1);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

base::Fd unix_socket(int type = SOCK_SEQPACKET) {
  base::Fd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw base::system_failure("create a Unix socket");
  return socket;
}

base::Fd listening(base::Fd socket, const std::string& name) {
  const AbstractAddress address = abstract_address(name);
  if (::bind(socket.get(), address.get(), address.size) != 0) {
    throw base::system_failure("bind an abstract Unix socket");
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) {
    throw base::system_failure("listen on an abstract Unix socket");
  }
  return socket;
}

/// The other end has closed: it gave up, or its process has ended. Other checks find out which of
/// the two happened.
[[noreturn]] void throw_gone(const std::string& who, const base::Patience& patience) {
  throw Error(ErrorCode::timeout,
              fmt::format("{} went away{}: it gave up, or ended", who, patience.when()));
}

[[noreturn]] void throw_timeout(const char* what, const std::string& who,
                                const base::Patience& patience) {
  throw Error(ErrorCode::timeout, fmt::format("gave up waiting to {} {}{}{}", what, who,
                                              patience.when(), patience.advice()));
}

/// One byte of payload, because a descriptor cannot travel alone, and room for that descriptor.
struct DescriptorMessage {
  char payload = 0;
  iovec data{&payload, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};

  DescriptorMessage() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
};

}  // namespace

base::Fd listen_abstract(const std::string& name) {
  return listening(unix_socket(), name);
}

base::Fd listen_nearby(const std::string& name) {
  return listening(unix_socket(SOCK_STREAM), name);
}

base::Fd connect_nearby(const std::string& name) {
  base::Fd socket = unix_socket(SOCK_STREAM);
  const AbstractAddress address = abstract_address(name);
  if (::connect(socket.get(), address.get(), address.size) != 0) return {};
  return is_same_user(socket) ? std::move(socket) : base::Fd();
}

bool is_nearby(const base::Fd& socket) {
  int family = 0;
  socklen_t size = sizeof family;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 &&
         family == AF_UNIX;
}

/// Whether the kernel says that the other end belongs to this user.
bool is_same_user(const base::Fd& socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
         who.uid == ::geteuid();
}

AbstractPeer connect_abstract(const std::string& name) {
  base::Fd socket = unix_socket();
  const AbstractAddress address = abstract_address(name);
  if (::connect(socket.get(), address.get(), address.size) == 0) {
    // A process of another user does not belong to the job, but it may know the name.
    if (!is_same_user(socket)) return {Reached::nobody, {}};
    return {Reached::connected, std::move(socket)};
  }
  if (errno == EAGAIN) return {Reached::busy, {}};
  if (errno == ECONNREFUSED) return {Reached::nobody, {}};
  throw base::system_failure("connect an abstract Unix socket");
}

base::Fd connect_abstract(const std::string& name, const std::string& who,
                          const base::Patience& patience) {
  base::Fd socket = unix_socket();
  const AbstractAddress address = abstract_address(name);
  // Only a blocking connect waits for room in the listener's queue. The send timeout limits its
  // wait.
  ::fcntl(socket.get(), F_SETFL, 0);
  do {
    const long left = std::max(1, milliseconds_until(patience.next_look()));
    const timeval limit{left / 1000, left % 1000 * 1000};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(socket.get(), address.get(), address.size) == 0) break;
    if (errno != EAGAIN && errno != EINTR) throw base::system_failure("connect to " + who);
    patience.look_now();
    if (patience.over()) throw_timeout("connect to", who, patience);
  } while (true);
  ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  return socket;
}

void send_descriptor(const base::Fd& socket, const base::Fd& file, const std::string& who,
                     const base::Patience& patience) {
  DescriptorMessage message;
  if (file) {
    cmsghdr* const head = CMSG_FIRSTHDR(&message.header);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = file.get();
    std::memcpy(CMSG_DATA(head), &number, sizeof number);
  } else {
    message.header.msg_controllen = 0;
  }
  while (::sendmsg(socket.get(), &message.header, MSG_NOSIGNAL) < 0) {
    if (errno == ECONNRESET || errno == EPIPE) throw_gone(who, patience);
    if (errno != EAGAIN && errno != EINTR) {
      throw base::system_failure("pass a descriptor to " + who);
    }
    if (!wait_writable(socket, patience)) throw_timeout("pass a descriptor to", who, patience);
  }
}

base::Fd receive_descriptor(const base::Fd& socket, const std::string& who,
                            const base::Patience& patience) {
  DescriptorMessage message;
  ssize_t count = 0;
  while ((count = ::recvmsg(socket.get(), &message.header, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == ECONNRESET) throw_gone(who, patience);
    if (errno != EAGAIN && errno != EINTR) {
      throw base::system_failure("receive a descriptor from " + who);
    }
    if (!wait_readable(socket, patience)) throw_timeout("receive a descriptor from", who, patience);
  }
  if (count == 0) throw_gone(who, patience);
  const cmsghdr* const head = CMSG_FIRSTHDR(&message.header);
  if (head == nullptr && (message.header.msg_flags & MSG_CTRUNC) != 0) {
    throw base::system_failure("receive a descriptor from " + who, EMFILE);
  }
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int))) {
    throw Error(ErrorCode::internal, who + " sent no descriptor where one was due");
  }
  int number = -1;
  std::memcpy(&number, CMSG_DATA(head), sizeof number);
  return base::Fd(number);
}

}  // namespace tutti::net
