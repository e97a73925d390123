#include <sys/resource.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <optional>

#include "net/sockets.h"
#include "ps/link/link_to_server.h"
#include "ps/link/link_to_worker.h"
#include "ps/protocol/wire.h"

using namespace tutti;
using namespace tutti::ps;
using namespace std::chrono_literals;
using base::Clock;
using Bytes = std::vector<std::byte>;

namespace {

/// The two ends of a connection on this machine, or of one that could be between machines.
std::pair<base::Fd, base::Fd> sockets(bool nearby) {
  if (nearby) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    return {base::Fd(ends[0]), base::Fd(ends[1])};
  }
  const base::Fd listener = net::listen_tcp("127.0.0.1");
  base::Fd caller = net::start_connecting("127.0.0.1", net::port_of(listener), "");
  REQUIRE(net::wait_readable(listener, Clock::now() + 5s));
  base::Fd called = net::accept_one(listener);
  REQUIRE(net::wait_writable(caller, Clock::now() + 5s));
  return {std::move(caller), std::move(called)};
}

net::ProvenPeer proven(base::Fd socket) {
  return {.rank = 0, .socket = std::move(socket)};
}

/// A worker's and a server's end of one link.
struct Links {
  explicit Links(bool nearby) {
    auto [caller, called] = sockets(nearby);
    server.emplace(proven(std::move(called)), poller, 1);
    worker.emplace(proven(std::move(caller)), poller, 2, base::Patience(Clock::now() + 5s));
  }

  /// Moves the sent bytes until `take` of this end has had a message, or the link has ended.
  template <typename Link, typename Take>
  std::optional<std::string> run(Link& link, const Take& take) {
    bool taken = false;
    std::optional<std::string> ended;
    for (const auto until = Clock::now() + 5s; !taken && !ended && Clock::now() < until;) {
      if (worker) worker->flush();
      if (server) server->flush();
      ended = link.receive([&](const auto& message) {
        taken = true;
        take(message);
      });
    }
    return ended;
  }
  /// Keeps a contribution like a server: elements that nothing keeps are valid only during the
  /// call.
  Contribution contribution_at_server() {
    Contribution said;
    run(*server, [&](const ToServer& request) {
      said = std::get<Contribution>(request);
      if (said.keeper) return;
      copied.assign(said.data.begin(), said.data.end());
      said.data = copied;
    });
    return said;
  }
  /// The elements of the answer.
  Bytes answer_at_worker() {
    Bytes elements;
    run(*worker,
        [&](const Answer& answer) { elements.assign(answer.data.begin(), answer.data.end()); });
    return elements;
  }

  net::Poller poller;
  std::optional<LinkToWorker> server;
  std::optional<LinkToServer> worker;
  Bytes copied;
};

Bytes numbers(std::size_t size, int seed = 1) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * static_cast<std::size_t>(seed) % 251);
  }
  return bytes;
}

Contribution push_of(const Bytes& elements, std::uint64_t sequence = 1) {
  return {.sequence = sequence,
          .piece = {"w", 0, 1},
          .kind = Kind::pushpull,
          .dtype = DType::u8,
          .shape = {static_cast<std::int64_t>(elements.size())},
          .data = elements};
}

/// Makes an answer like a piece: nothing is in the room yet.
Answer answer_of(const Contribution& said, const Bytes& elements) {
  Answer answer{
      .sequence = said.sequence, .failure = {}, .data = elements, .keeper = {}, .room = said.room};
  if (answer.room) answer.room->filled = 0;
  return answer;
}

bool same(std::span<const std::byte> found, const Bytes& right) {
  return std::ranges::equal(found, right);
}

}  // namespace

TEST_CASE("elements arrive, and those of the answer, whichever way and whatever their size") {
  const bool nearby = GENERATE(false, true);
  const std::size_t size = GENERATE(as<std::size_t>{}, 4, 1000, 16384, 16385, 4 << 20);
  Links links(nearby);
  const Bytes gradient = numbers(size);
  const Bytes sum = numbers(size, 3);
  links.worker->send(push_of(gradient), size, true);
  const Contribution said = links.contribution_at_server();
  CHECK(same(said.data, gradient));
  CHECK(said.room.has_value() == (nearby && size >= least_room_bytes));
  links.server->send(answer_of(said, sum));
  CHECK(same(links.answer_at_worker(), sum));
}

TEST_CASE("a large contribution is not copied after it has arrived") {
  const bool nearby = GENERATE(false, true);
  Links links(nearby);
  const Bytes gradient = numbers(1 << 20);
  links.worker->send(push_of(gradient), 0, true);
  const Contribution said = links.contribution_at_server();
  CHECK(said.keeper != nullptr);
  links.server.reset();
  links.worker.reset();
  CHECK(same(said.data, gradient));
}

TEST_CASE("where no room is left elements travel in the message") {
  Links links(true);
  const Bytes gradient = numbers(4 << 20);
  const std::size_t fitting = shared_bytes / gradient.size();
  for (std::uint64_t i = 1; i <= fitting + 1; ++i) {
    links.worker->send(push_of(gradient, i), gradient.size(), true);
    const Contribution said = links.contribution_at_server();
    REQUIRE(said.sequence == i);
    CHECK(said.room.has_value() == (i <= fitting));
    CHECK(same(said.data, gradient));
    if (i > fitting) links.server->send(answer_of(said, gradient));
  }
  CHECK(same(links.answer_at_worker(), gradient));
}

TEST_CASE("a room is used again once its answer has come") {
  Links links(true);
  const Bytes gradient = numbers(4 << 20);
  std::optional<std::uint64_t> first;
  for (std::uint64_t i = 1; i <= 40; ++i) {
    links.worker->send(push_of(gradient, i), 0, true);
    const Contribution said = links.contribution_at_server();
    REQUIRE(said.room);
    if (!first) first = said.room->offset;
    CHECK(said.room->offset == *first);
    links.server->send(answer_of(said, {}));
    CHECK(links.answer_at_worker().empty());
  }
}

TEST_CASE("a pull has a room for its answer") {
  Links links(true);
  const Bytes value = numbers(100'000);
  links.worker->send(Pull{.sequence = 1, .piece = {"w", 0, 1}, .shape = {100'000}}, value.size(),
                     false);
  std::optional<Room> room;
  links.run(*links.server, [&](const ToServer& request) { room = std::get<Pull>(request).room; });
  REQUIRE(room);
  links.server->send({.sequence = 1, .failure = {}, .data = value, .keeper = {}, .room = room});
  CHECK(same(links.answer_at_worker(), value));
}

TEST_CASE("a room that is not in the shared memory ends the link, as one where none is shared") {
  const bool nearby = GENERATE(false, true);
  const Room room = GENERATE(Room{shared_bytes, 1, 1}, Room{0, shared_bytes + 1, 1},
                             Room{SIZE_MAX - 4, 8, 8}, Room{shared_bytes - 4, 8, 4});
  net::Poller poller;
  auto [caller, called] = sockets(nearby);
  LinkToWorker server(proven(std::move(called)), poller, 1);
  if (nearby) net::receive_descriptor(caller, "the server", Clock::now() + 5s);
  net::LinkEnd worker(proven(std::move(caller)), poller, 2, net::Bytes());
  Contribution said = push_of({});
  said.room = room;
  worker.queue(encode(ToServer(said)));
  worker.flush();
  const auto receive = [&] {
    for (const auto until = Clock::now() + 5s; Clock::now() < until;) {
      server.receive([](const ToServer&) {});
    }
  };
  CHECK_THROWS_WITH(receive(), Catch::Contains("a room of"));
}

TEST_CASE("an answer in a room that was not given is refused") {
  Links links(true);
  const Bytes elements = numbers(100'000);
  links.worker->send(push_of(elements), elements.size(), true);
  const Contribution said = links.contribution_at_server();
  Answer forged = answer_of(said, elements);
  forged.sequence = 2;
  links.server->send(forged);
  CHECK_THROWS_WITH(links.answer_at_worker(), Catch::Contains("a room that it was not given"));
}

TEST_CASE("a room of a former connection is none on one that shares no memory") {
  Links links(false);
  const Bytes elements = numbers(100'000);
  Answer answer{.sequence = 1, .failure = {}, .data = elements, .keeper = {}, .room = {}};
  answer.room = Room{.offset = 0, .bytes = elements.size()};
  links.server->send(answer);
  CHECK(same(links.answer_at_worker(), elements));
}

TEST_CASE("elements that a worker was writing when it died reach nobody") {
  Links links(false);
  const Bytes gradient = numbers(64 << 20);  // more than the sockets hold
  links.worker->send(push_of(gradient), 0, true);
  links.worker->flush();
  links.worker.reset();
  bool heard = false;
  const auto ended = links.run(*links.server, [&](const ToServer&) { heard = true; });
  CHECK(ended);
  CHECK_FALSE(heard);
}

TEST_CASE("where the system gives no memory to share, elements pass over the connection") {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  ::setrlimit(RLIMIT_FSIZE, &small);
  Links links(true);
  ::setrlimit(RLIMIT_FSIZE, &before);
  const Bytes gradient = numbers(1 << 20);
  links.worker->send(push_of(gradient), gradient.size(), true);
  const Contribution said = links.contribution_at_server();
  CHECK_FALSE(said.room);
  links.server->send(answer_of(said, gradient));
  CHECK(same(links.answer_at_worker(), gradient));
}
