#include "net/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "net/approach.h"
#include "net/connection.h"
#include "net/interfaces.h"
#include "net/sockets.h"
#include "tutti/error.h"

using namespace tutti::net;
using namespace std::chrono_literals;
using Catch::Contains;
using tutti::base::Clock;
using tutti::base::Fd;

namespace {

/// Nothing in these tests takes this long unless it hangs.
constexpr auto handshake_patience = 6s;

Secret some_secret() {
  Secret secret{};
  std::ranges::copy(random_nonce(), secret.begin());
  return secret;
}

Identity someone(int rank, const Secret& secret, const char* purpose = "link") {
  return {rank, secret, purpose};
}

std::vector<Candidate> candidates_for(const Fd& listener) {
  std::vector<Candidate> candidates;
  candidates.push_back({start_connecting("127.0.0.1", port_of(listener), ""), "127.0.0.1"});
  return candidates;
}

/// Listens as rank 0 for rank 1 in a thread of its own.
struct ListeningRank {
  Secret secret = some_secret();
  Fd listener = listen_tcp("127.0.0.1");
  std::vector<ProvenPeer> found;
  std::string failure;
  std::thread thread;

  explicit ListeningRank(Clock::duration limit = handshake_patience)
      : thread([this, limit] {
          try {
            found = accept_peers(listener, someone(0, secret), {1}, Clock::now() + limit);
          } catch (const tutti::Error& error) {
            failure = error.what();
          }
        }) {}
  ~ListeningRank() {
    if (thread.joinable()) thread.join();
  }

  ProvenPeer call(const Identity& me) {
    return prove_to(candidates_for(listener), me, 0, Clock::now() + handshake_patience);
  }
  Fd stranger_saying(ConstBytes bytes) {
    Fd socket = start_connecting("127.0.0.1", port_of(listener), "");
    wait_writable(socket, Clock::now() + handshake_patience);
    ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return socket;
  }
};

/// Whether the other end closes within the time.
bool is_closed(const Fd& socket, Clock::duration limit = handshake_patience) {
  std::byte byte;
  const auto deadline = Clock::now() + limit;
  while (wait_readable(socket, deadline)) {
    if (::recv(socket.get(), &byte, 1, 0) <= 0) return true;
  }
  return false;
}

std::string await_message(Connection& connection) {
  Parcel message;
  while (!connection.next(message)) {
    if (!wait_readable(connection.socket(), Clock::now() + handshake_patience)) return "";
    if (connection.receive()) return "ended";
  }
  return std::string(as_text(message.head));
}

}  // namespace

TEST_CASE("two ends with the same secret find each other and can talk") {
  ListeningRank rank0;
  Connection caller(rank0.call(someone(1, rank0.secret)));
  rank0.thread.join();
  REQUIRE(rank0.found.size() == 1);
  CHECK(rank0.found.front().rank == 1);
  Connection listener(std::move(rank0.found.front()));
  caller.queue(as_bytes("up"));
  caller.flush();
  CHECK(await_message(listener) == "up");
  listener.queue(as_bytes("down"));
  listener.flush();
  CHECK(await_message(caller) == "down");
}

TEST_CASE("strangers are closed and keep nobody from getting in") {
  ListeningRank rank0;
  const Fd silent = rank0.stranger_saying({});
  const Fd scanner = rank0.stranger_saying(as_bytes("GET / HTTP/1.1\r\nHost: example\r\n\r\n"));
  const Fd flood = rank0.stranger_saying(Bytes(100'000));
  Bytes unexpected_rank;
  append(unexpected_rank, as_bytes("tutti/c3"));
  append_u32(unexpected_rank, 7);
  append_u32(unexpected_rank, 0);
  append(unexpected_rank, Bytes(nonce_bytes));
  const Fd wrong_rank = rank0.stranger_saying(unexpected_rank);
  // Well before the limit for those who say nothing.
  CHECK(is_closed(scanner, 2s));
  CHECK(is_closed(flood, 2s));
  CHECK(is_closed(wrong_rank, 2s));

  const ProvenPeer peer = rank0.call(someone(1, rank0.secret));
  rank0.thread.join();
  CHECK(rank0.found.size() == 1);
}

TEST_CASE("many silent strangers keep nobody waiting: the oldest of them are closed first") {
  ListeningRank rank0;
  std::vector<Fd> crowd;
  crowd.reserve(300);
  for (int i = 0; i < 300; ++i) crowd.push_back(rank0.stranger_saying({}));
  // Well before the limit for those who say nothing.
  CHECK(is_closed(crowd.front(), 2s));
  CHECK_FALSE(is_closed(crowd.back(), 0s));
  const auto before = Clock::now();
  const ProvenPeer peer = rank0.call(someone(1, rank0.secret));
  CHECK(Clock::now() - before < 2s);
  rank0.thread.join();
  CHECK(rank0.found.size() == 1);
}

TEST_CASE("a caller with another secret, or meant for another listener, is refused and refuses") {
  ListeningRank rank0(1s);
  CHECK_THROWS_WITH(rank0.call(someone(1, some_secret())), Contains("does not know the job's key"));
  CHECK_THROWS_AS(rank0.call(someone(1, rank0.secret, "node")), NotOfThisJob);
  rank0.thread.join();
  CHECK_THAT(rank0.failure, Contains("rank 0 gave up waiting for rank(s) 1"));
}

TEST_CASE("an end that encrypts and one that does not refuse each other, and say why") {
  ListeningRank rank0(1s);
  Identity me = someone(1, rank0.secret);
  me.encrypts = true;
  CHECK_THROWS_WITH(rank0.call(me), Contains("it does not encrypt, and this end does"));
  rank0.thread.join();
  CHECK(rank0.found.empty());
}

TEST_CASE("a recorded handshake cannot be replayed") {
  ListeningRank rank0(2s);
  // A wire that listens in: what the true caller says is kept and said again to a second listener.
  const Fd wire = listen_tcp("127.0.0.1");
  Bytes recorded;
  std::thread recorder([&] {
    if (!wait_readable(wire, Clock::now() + handshake_patience)) return;
    const Fd caller = accept_one(wire);
    const Fd onward = rank0.stranger_saying({});
    std::byte raw[256];
    const auto pass = [&](const Fd& from, const Fd& to) {
      if (!wait_readable(from, Clock::now() + handshake_patience)) return;
      const ssize_t count = ::recv(from.get(), raw, sizeof raw, 0);
      if (count <= 0) return;
      ::send(to.get(), raw, static_cast<std::size_t>(count), MSG_NOSIGNAL);
      if (&from == &caller) append(recorded, ConstBytes(raw, static_cast<std::size_t>(count)));
    };
    pass(caller, onward);
    pass(onward, caller);
    pass(caller, onward);
  });
  const ProvenPeer peer = prove_to(candidates_for(wire), someone(1, rank0.secret), 0,
                                   Clock::now() + handshake_patience);
  recorder.join();
  rank0.thread.join();
  REQUIRE(rank0.found.size() == 1);

  std::string failure;
  std::thread again([&] {
    try {
      accept_peers(rank0.listener, someone(0, rank0.secret), {1}, Clock::now() + 1s);
    } catch (const tutti::Error& error) {
      failure = error.what();
    }
  });
  const Fd replayer = rank0.stranger_saying(recorded);
  CHECK(is_closed(replayer));
  again.join();
  CHECK_THAT(failure, Contains("rank(s) 1"));
}

TEST_CASE("a caller takes the address that leads to the listener") {
  ListeningRank rank0;
  const Fd mute = listen_tcp("127.0.0.1");  // accepts and never answers
  const Fd closed = listen_tcp("127.0.0.1");
  const std::uint16_t dead_port = port_of(closed);
  std::vector<Candidate> candidates = candidates_for(mute);
  Fd dead = start_connecting("127.0.0.1", port_of(closed), "");
  candidates.push_back({start_connecting("127.0.0.1", dead_port, ""), "127.0.0.1 (dead)"});
  for (Candidate& candidate : candidates_for(rank0.listener))
    candidates.push_back(std::move(candidate));
  const ProvenPeer peer = prove_to(std::move(candidates), someone(1, rank0.secret), 0,
                                   Clock::now() + handshake_patience);
  CHECK(peer.rank == 0);
  rank0.thread.join();
}

TEST_CASE(
    "if the system refuses one address, the caller tries the others; if it refuses the only one, "
    "the peer is lost") {
  ListeningRank rank0;
  const std::uint16_t port = port_of(rank0.listener);
  std::vector<Candidate> candidates;
  candidates.push_back(start_candidate("255.255.255.255", port, ""));
  candidates.push_back(start_candidate("127.0.0.1", port, "192.0.2.1"));  // no address of this host
  candidates.push_back(start_candidate("127.0.0.1", port, "::1"));        // of another family
  for (const Candidate& candidate : candidates)
    CHECK_THAT(candidate.failure, Contains("cannot connect"));
  for (Candidate& candidate : candidates_for(rank0.listener))
    candidates.push_back(std::move(candidate));
  const ProvenPeer peer = prove_to(std::move(candidates), someone(1, rank0.secret), 0,
                                   Clock::now() + handshake_patience);
  CHECK(peer.rank == 0);
  rank0.thread.join();
  std::vector<Candidate> alone;
  alone.push_back(start_candidate("255.255.255.255", port, ""));
  try {
    prove_to(std::move(alone), someone(1, rank0.secret), 0, Clock::now() + handshake_patience);
    FAIL("there was a way");
  } catch (const tutti::Error& error) {
    CHECK(error.code() == tutti::ErrorCode::peer_lost);
    CHECK_THAT(error.what(), Contains("255.255.255.255: cannot connect to"));
  }
}

TEST_CASE("a listener that is not there, or never answers, is told apart in the error") {
  const Secret secret = some_secret();
  Fd listener = listen_tcp("127.0.0.1");
  CHECK_THROWS_WITH(prove_to(candidates_for(listener), someone(1, secret), 0, Clock::now() + 100ms),
                    Contains("rank 1 gave up waiting for rank 0 to answer at 127.0.0.1"));
  const std::uint16_t port = port_of(listener);
  listener.reset();
  std::vector<Candidate> candidates;
  candidates.push_back({start_connecting("127.0.0.1", port, ""), "127.0.0.1"});
  CHECK_THROWS_WITH(
      prove_to(std::move(candidates), someone(1, secret), 0, Clock::now() + handshake_patience),
      Contains("rank 1 found no way to rank 0") && Contains("Connection refused"));
}

TEST_CASE("an approach takes a step at a time and never waits") {
  const Fd mute = listen_tcp("127.0.0.1");
  const auto begun = Clock::now();
  Approach in_vain(candidates_for(mute), someone(1, some_secret()), 0);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(in_vain.advance());
  CHECK(Clock::now() - begun < handshake_patience);
  ListeningRank rank0;
  Approach approach(candidates_for(rank0.listener), someone(1, rank0.secret), 0);
  std::optional<ProvenPeer> peer;
  while (!peer && Clock::now() < begun + handshake_patience) peer = approach.advance();
  rank0.thread.join();
  REQUIRE(peer);
  CHECK(peer->rank == 0);
  Approach nowhere({}, someone(1, rank0.secret), 0);
  CHECK_THROWS_WITH(nowhere.advance(), Contains("rank 1 found no way to rank 0"));
}

TEST_CASE("errors of a handshake say what it was part of, in the caller's words") {
  const tutti::base::Occasion joining{"while server 3 joined", "raise TUTTI_JOIN_SECONDS"};
  const Fd listener = listen_tcp("127.0.0.1");
  const auto until = [&](auto limit) {
    return tutti::base::Patience(Clock::now() + limit, {}, joining);
  };
  CHECK_THROWS_WITH(accept_peers(listener, someone(0, some_secret()), {1}, until(20ms)),
                    Contains("rank(s) 1 to connect while server 3 joined; are they running"));
  CHECK_THROWS_WITH(prove_to(candidates_for(listener), someone(1, some_secret()), 0, until(20ms)),
                    Contains("to answer at 127.0.0.1 while server 3 joined; is it running"));
  CHECK_THROWS_WITH(prove_to({}, someone(1, some_secret()), 0, until(20ms)),
                    Contains("no way to rank 0 while server 3 joined:"));
}

TEST_CASE("a frame that was changed on its way ends the connection with the reason") {
  ListeningRank rank0;
  ProvenPeer caller = rank0.call(someone(1, rank0.secret));
  rank0.thread.join();
  Connection listener(std::move(rank0.found.front()));
  FrameSealer sealer({caller.send_key, false});
  SliceQueue slices;
  sealer.seal({as_bytes("an order")}, slices);
  Bytes wire;
  for (const Slice& slice : slices.all()) append(wire, slice.bytes);
  wire.back() ^= std::byte{1};
  ::send(caller.socket.get(), wire.data(), wire.size(), MSG_NOSIGNAL);
  REQUIRE(wait_readable(listener.socket(), Clock::now() + handshake_patience));
  CHECK_THAT(listener.receive().value_or("it went through"), Contains("not authentic"));
}

TEST_CASE("an interface is found by name, and an unknown one lists those there are") {
  CHECK(reachable_addresses("lo") == std::vector<std::string>{"127.0.0.1"});
  CHECK_FALSE(reachable_addresses("").empty());
  CHECK_THROWS_WITH(reachable_addresses("l0"),
                    Contains("network interface 'l0' (DMLC_INTERFACE) does not exist") &&
                        Contains("did you mean 'lo'?") &&
                        Contains("this host has: lo (127.0.0.1)"));
}
