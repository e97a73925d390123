#include "control/link.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/failure.h"
#include "tutti/error.h"

namespace tutti::control {
namespace {

using Nonce = std::array<std::byte, 32>;

/// What each side sends first; the acceptor learns the rank from it.
struct Hello {
  std::int32_t rank = 0;
  Nonce nonce{};
};

std::span<std::byte> bytes_of(Hello& hello) {
  return std::as_writable_bytes(std::span(&hello, 1));
}

struct Keys {
  SessionKey up;
  SessionKey down;
  SessionKey proof_of_connector;
  SessionKey proof_of_acceptor;
};

Keys keys_of(const std::string& secret, const Hello& connector, const Hello& acceptor) {
  std::vector<std::byte> nonces(connector.nonce.begin(), connector.nonce.end());
  nonces.insert(nonces.end(), acceptor.nonce.begin(), acceptor.nonce.end());
  const auto rank = std::as_bytes(std::span(&connector.rank, 1));
  nonces.insert(nonces.end(), rank.begin(), rank.end());
  return {session_key(secret, "up", nonces), session_key(secret, "down", nonces),
          session_key(secret, "connector", nonces), session_key(secret, "acceptor", nonces)};
}

Hello make_hello(int rank) {
  Hello hello;
  hello.rank = rank;
  ::randombytes_buf(hello.nonce.data(), hello.nonce.size());
  return hello;
}

void check_proof(const base::Fd& socket, const SessionKey& expected, Deadline deadline) {
  SessionKey proof{};
  receive_all(socket, proof, deadline, "the other side of a control link to prove itself");
  if (::sodium_memcmp(proof.data(), expected.data(), proof.size()) != 0) {
    throw Error(ErrorCode::internal, "a control connection came from outside this job");
  }
}

}  // namespace

Link::Link(base::Fd socket, const SessionKey& outgoing, const SessionKey& incoming)
    : socket_(std::move(socket)), writer_(outgoing), reader_(incoming) {
  tune_link(socket_);
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

Link Link::connect(base::Fd socket, int rank, const std::string& secret, Deadline deadline) {
  Hello mine = make_hello(rank);
  Hello theirs;
  send_all(socket, bytes_of(mine), deadline, "rank 0 to greet");
  receive_all(socket, bytes_of(theirs), deadline, "rank 0 to greet");
  const Keys keys = keys_of(secret, mine, theirs);
  send_all(socket, keys.proof_of_connector, deadline, "rank 0 to accept this node");
  check_proof(socket, keys.proof_of_acceptor, deadline);
  return {std::move(socket), keys.up, keys.down};
}

Link Link::accept(base::Fd socket, const std::string& secret, Deadline deadline, int& rank) {
  Hello theirs;
  Hello mine = make_hello(0);
  receive_all(socket, bytes_of(theirs), deadline, "a node to greet");
  send_all(socket, bytes_of(mine), deadline, "a node to greet");
  const Keys keys = keys_of(secret, theirs, mine);
  check_proof(socket, keys.proof_of_connector, deadline);
  send_all(socket, keys.proof_of_acceptor, deadline, "a node to be told that it is accepted");
  rank = theirs.rank;
  return {std::move(socket), keys.down, keys.up};
}

void Link::watch(Poller& poller, std::uint64_t id) {
  poller_ = &poller;
  id_ = id;
  poller.add(socket_, id);
}

bool Link::seal_and_send(bool farewell) {
  writer_.seal(farewell);
  while (!writer_.empty()) {
    const auto data = writer_.outgoing();
    const ssize_t count =
        ::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) return false;
    if (count < 0) break;
    writer_.sent(static_cast<std::size_t>(count));
  }
  if (poller_ != nullptr) poller_->want_writing(socket_, id_, !writer_.empty());
  return true;
}

bool Link::receive(std::vector<Letter>& letters) {
  std::array<std::byte, 65536> buffer;
  bool open = true;
  for (;;) {
    const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    open = count > 0 || (count < 0 && errno == EAGAIN);
    if (count <= 0) break;
    reader_.feed(std::span(buffer).first(static_cast<std::size_t>(count)));
  }
  for (Letter& letter : reader_.take()) letters.push_back(std::move(letter));
  return open;
}

}  // namespace tutti::control
