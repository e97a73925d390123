#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/log.h"
#include "fuzz/decoders.h"
#include "net/handshake.h"
#include "net/handshake_wire.h"
#include "net/reception.h"

namespace tutti::fuzz {
namespace {

using base::Fd;
using namespace std::chrono_literals;

constexpr int stream = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

/// The listener is rank 0, the caller rank 1.
net::Identity someone(int rank) {
  return {.rank = rank, .secret = {}, .purpose = "fuzz"};
}

/// Random bytes are zeros, so that what a peer has to say is known.
void fix_nonces() {
  static randombytes_implementation zeros{};
  zeros.implementation_name = [] { return "zeros"; };
  zeros.random = [] { return std::uint32_t{0}; };
  zeros.buf = [](void* to, std::size_t size) { std::memset(to, 0, size); };
  ::randombytes_set_implementation(&zeros);
}

net::handshake::Transcript transcript() {
  return {someone(0), {.rank = 1}, {.rank = 0}};
}

/// All that a listener accepts of its caller, and the other way round.
net::Bytes callers_words() {
  net::Bytes words;
  net::append(words, net::as_bytes(net::handshake::magic));
  net::append_u32(words, 1);
  net::append_u32(words, 0);
  net::append(words, net::Nonce{});
  net::append(words, transcript().callers_proof());
  return words;
}
net::Bytes listeners_words() {
  net::Bytes words;
  net::append_u32(words, 0);
  net::append(words, net::Nonce{});
  net::append(words, transcript().listeners_proof());
  return words;
}

/// Sends bytes. No handshake reads those that do not fit into the socket's buffer.
void say(const Fd& socket, Bytes bytes) {
  static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  ::shutdown(socket.get(), SHUT_WR);
}

bool is_proven(bool proven, Bytes said, const net::Bytes& proof) {
  const Bytes begin = said.first(std::min(said.size(), proof.size()));
  if (proven && !std::ranges::equal(begin, proof)) fail("who has proved nothing is accepted");
  return proven;
}

bool call(Bytes answer) {
  int ends[2];
  if (::socketpair(AF_UNIX, stream, 0, ends) != 0) fail("no sockets");
  const Fd listener(ends[0]);
  std::vector<net::Candidate> candidates;
  candidates.push_back({Fd(ends[1]), "here"});
  say(listener, answer);
  const auto peer = accepted(
      [&] { return net::prove_to(std::move(candidates), someone(1), 0, base::Clock::now() + 60s); },
      {ErrorCode::peer_lost, ErrorCode::mismatch});
  static const net::Bytes proof = listeners_words();
  return is_proven(peer.has_value(), answer, proof);
}

/// Listens under a name that the system chooses.
Fd some_listener() {
  Fd listener(::socket(AF_UNIX, stream, 0));
  const sockaddr_un none{.sun_family = AF_UNIX, .sun_path = {}};
  const auto* const name = reinterpret_cast<const sockaddr*>(&none);
  if (::bind(listener.get(), name, sizeof none.sun_family) != 0) fail("no name");
  if (::listen(listener.get(), 1) != 0) fail("no listener");
  return listener;
}

Fd connected_to(const Fd& listener) {
  sockaddr_un bound{};
  auto* const name = reinterpret_cast<sockaddr*>(&bound);
  socklen_t size = sizeof bound;
  Fd caller(::socket(AF_UNIX, stream, 0));
  if (::getsockname(listener.get(), name, &size) != 0) fail("no name");
  if (::connect(caller.get(), name, size) != 0) fail("no connection");
  return caller;
}

bool receive(Bytes said) {
  static const Fd listener = some_listener();
  net::Reception reception(listener, someone(0), {[](int rank) { return rank == 1; }, 1});
  const Fd caller = connected_to(listener);
  say(caller, said);
  std::vector<net::ProvenPeer> proven = reception.advance();
  while (proven.empty() && reception.deadline()) proven = reception.advance();
  static const net::Bytes proof = callers_words();
  return is_proven(!proven.empty(), said, proof);
}

constexpr Decoder all[] = {{call}, {receive}};

}  // namespace

std::span<const Decoder> decoders() {
  static const bool is_ready = [] {
    fix_nonces();
    return base::set_log_level("off");
  }();
  static_cast<void>(is_ready);
  return all;
}

std::vector<Seed> seeds() {
  return {{0, listeners_words()}, {1, callers_words()}};
}

}  // namespace tutti::fuzz
