#include "net/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <catch2/catch.hpp>
#include <thread>

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

}  // namespace

TEST_CASE("an idle connection of much data is asked for before others on the way forget it") {
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
