#include "ps/link/channel.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <thread>

#include "net/sockets.h"

using namespace tutti;
using namespace tutti::ps;
using namespace std::chrono_literals;
using base::Clock;

namespace {

/// Both ends of a connection.
std::pair<base::Fd, base::Fd> sockets() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  return {base::Fd(ends[0]), base::Fd(ends[1])};
}

net::ProvenPeer peer(base::Fd socket) {
  return {.rank = 0, .socket = std::move(socket)};
}

constexpr Channel::Terms resends{.delivery = {.keeps = true, .resend_after = 10ms}};

}  // namespace

TEST_CASE("a packet that waits to be written is not sent again") {
  net::Poller poller;
  Channel a(poller, 1, {"a", "b"}, resends);
  Channel b(poller, 2, {"b", "a"}, resends);
  auto [one, other] = sockets();
  a.connect(peer(std::move(one)));
  b.connect(peer(std::move(other)));
  // This is more than the socket holds, and nobody reads.
  const net::Bytes large(4 << 20);
  a.send(large);
  a.flush();
  const std::size_t unwritten = a.unwritten_bytes();
  REQUIRE(unwritten > 0);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(20ms);
    a.flush();
    CHECK(a.unwritten_bytes() == unwritten);
  }
  CHECK_FALSE(a.due());
  int arrived = 0;
  for (const auto until = Clock::now() + 5s;
       Clock::now() < until && !(arrived > 0 && a.delivery().is_acknowledged());) {
    a.flush();
    b.receive([&](net::ConstBytes message) { arrived += message.size() == large.size() ? 1 : 0; });
    b.flush();
    a.receive([](net::ConstBytes) {});
  }
  CHECK(arrived == 1);
  CHECK(a.delivery().is_acknowledged());
}
