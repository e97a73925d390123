#include "net/sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <thread>

#include "unit/errors.h"

using namespace tutti;
using namespace tutti::net;
using namespace std::chrono_literals;

namespace {

/// Sends until the other end's memory is full. How many bytes that took.
std::size_t fill(const base::Fd& socket) {
  std::size_t sent = 0;
  std::array<char, 1 << 16> data{};
  for (int times_full = 0; times_full < 5;) {
    const ssize_t count = ::send(socket.get(), data.data(), data.size(), MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
    } else {
      ++times_full;
      std::this_thread::sleep_for(10ms);
    }
  }
  return sent;
}

std::size_t read_to_end(const base::Fd& socket) {
  std::size_t received = 0;
  std::array<char, 1 << 16> data{};
  while (wait_readable(socket, base::Clock::now() + 5s)) {
    const ssize_t count = ::recv(socket.get(), data.data(), data.size(), 0);
    if (count <= 0) break;
    received += static_cast<std::size_t>(count);
  }
  return received;
}

int option_of(const base::Fd& socket, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  REQUIRE(::getsockopt(socket.get(), level, name, &value, &size) == 0);
  return value;
}

/// A process of another user that listens there while this object lives.
class OtherUser {
 public:
  explicit OtherUser(const std::string& name) {
    int up[2];
    REQUIRE(::pipe(up) == 0);
    child_ = ::fork();
    if (child_ == 0) {
      if (::setuid(65534) != 0) ::_exit(1);
      const base::Fd listener = listen_abstract(name);
      while (::write(up[1], "", listener ? 1 : 0) >= 0) ::pause();
    }
    ::close(up[1]);
    char ready = 0;
    REQUIRE(::read(up[0], &ready, 1) == 1);
    ::close(up[0]);
  }
  ~OtherUser() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

 private:
  pid_t child_ = -1;
};

}  // namespace

TEST_CASE("a socket that listens already is taken over, and nothing else is") {
  base::Fd listener = listen_tcp("127.0.0.1");
  const std::uint16_t port = port_of(listener);
  ::fcntl(listener.get(), F_SETFD, 0);
  ::fcntl(listener.get(), F_SETFL, 0);
  const base::Fd taken = adopt_listener(listener.release());
  CHECK((::fcntl(taken.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(taken.get(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK(port_of(taken) == port);
  const base::Fd caller = start_connecting("127.0.0.1", port, "");
  REQUIRE(wait_readable(taken, base::Clock::now() + 5s));
  CHECK(accept_one(taken));
  const base::Fd near = listen_nearby("tutti-test-" + std::to_string(::getpid()));
  for (const int none : {caller.get(), near.get(), ::open("/dev/null", O_RDONLY), 4095}) {
    CHECK(error_of([&] { adopt_listener(none); }) == "invalid_argument: descriptor " +
                                                         std::to_string(none) +
                                                         " is no TCP socket that listens");
  }
}

TEST_CASE("another user's process that listens at a name of the job's is nobody") {
  if (::geteuid() != 0) return;  // only root can become another user
  const std::string name = "tutti-test-other-" + std::to_string(::getpid());
  {
    const base::Fd mine = listen_abstract(name);
    CHECK(connect_abstract(name).reached == Reached::connected);
  }
  const OtherUser other(name);
  CHECK(connect_abstract(name).reached == Reached::nobody);
}

TEST_CASE("an idle connection for much data sends keepalives before the network forgets it") {
  const base::Fd listener = listen_tcp("127.0.0.1");
  const base::Fd caller = start_connecting("127.0.0.1", port_of(listener), "");
  tune_data_link(caller);
  CHECK(option_of(caller, SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(option_of(caller, IPPROTO_TCP, TCP_KEEPIDLE) <= 300);
}

TEST_CASE("a connection of much data outlives a reader that has no time for long") {
  const base::Fd listener = listen_tcp("127.0.0.1");
  base::Fd caller = start_connecting("127.0.0.1", port_of(listener), "");
  REQUIRE(wait_readable(listener, base::Clock::now() + 5s));
  const base::Fd reader = accept_one(listener);
  check_connected(caller);
  tune_data_link(caller);
  const std::size_t sent = fill(caller);
  // Longer than a peer has to acknowledge on a link of small messages.
  std::this_thread::sleep_for(4s);
  ::shutdown(caller.get(), SHUT_WR);
  CHECK(read_to_end(reader) == sent);
}
