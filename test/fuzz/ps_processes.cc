// A server and a scheduler get messages that verify, from any process and in any order.
#include <algorithm>
#include <array>

#include "fuzz/decoders.h"
#include "net/bytes.h"
#include "optimizer/saved.h"
#include "ps/protocol/states.h"
#include "ps/protocol/wire.h"
#include "ps/scheduler/stores.h"
#include "ps/server/table.h"
#include "tutti/version.h"

namespace tutti::fuzz {
namespace {

using namespace ps;

constexpr int workers = 2;
constexpr int most_servers = 2;
constexpr std::size_t processes = workers + most_servers;
/// The numbers that the scheduler gives to the connections of workers' processes.
constexpr std::size_t first_process = 100;

/// A conversation: of each message who says it (1 byte), its length (2 bytes) and the message.
template <typename Message>
void add(net::Bytes& conversation, std::size_t who, const Message& message) {
  const std::vector<std::byte> bytes = encode(message);
  conversation.push_back(static_cast<std::byte>(who));
  conversation.push_back(static_cast<std::byte>(bytes.size()));
  conversation.push_back(static_cast<std::byte>(bytes.size() >> 8));
  net::append(conversation, bytes);
}

/// Calls `receive` with the sender and the message. If that is refused, calls `lose`, and no
/// further message of this process follows. Returns true if all messages were accepted.
template <typename Receive, typename Lose>
bool converse(Bytes bytes, std::size_t speakers, const Receive& receive, const Lose& lose) {
  std::array<bool, processes> is_lost{};
  while (bytes.size() >= 3) {
    const auto number = [&](std::size_t at) { return std::to_integer<std::size_t>(bytes[at]); };
    const std::size_t who = number(0) % speakers;
    const std::size_t length = std::min(number(1) + (number(2) << 8), bytes.size() - 3);
    const std::vector<std::byte> message(bytes.begin() + 3,
                                         bytes.begin() + 3 + static_cast<std::ptrdiff_t>(length));
    bytes = bytes.subspan(3 + length);
    if (is_lost[who]) continue;
    const auto heard = accepted(
        [&] {
          receive(who, message);
          return true;
        },
        {ErrorCode::internal, ErrorCode::invalid_argument});
    if (heard) continue;
    is_lost[who] = true;
    lose(who);
  }
  return is_lost == std::array<bool, processes>{};
}

template <bool asynchronous>
bool serve(Bytes bytes) {
  Table table({.workers = workers,
               .asynchronous = asynchronous,
               .staleness = asynchronous ? 1 : unbounded,
               .send = [](int, const Answer& answer) { encode(answer); }});
  return converse(
      bytes, workers,
      [&](std::size_t worker, Bytes message) {
        table.receive(static_cast<int>(worker), decode_to_server(message));
      },
      [&](std::size_t worker) {
        table.lose(static_cast<int>(worker), {ErrorCode::peer_lost, "it is lost", {}});
      });
}

template <int servers>
bool schedule(Bytes bytes) {
  constexpr std::uint64_t big_count = 4;
  std::uint64_t ids = 0;
  Stores stores(
      {.workers = workers, .servers = servers}, big_count,
      [](Stores::Node, const FromScheduler& message) { encode(message); },
      [&ids] { return ++ids; });
  // Each worker's process has a connection of its own, whose number its worker knows.
  for (std::size_t worker = 0; worker < workers; ++worker)
    stores.receive(first_process + worker, Stay{});
  return converse(
      bytes, workers + servers,
      [&](std::size_t node, Bytes message) { stores.receive(node, decode_to_scheduler(message)); },
      [&](std::size_t node) { stores.lose(node, "it is lost"); });
}

constexpr Decoder all[] = {{serve<false>}, {serve<true>}, {schedule<1>}, {schedule<most_servers>}};

const std::vector<std::byte> elements(8, std::byte{1});
const PieceName piece{"w", 0, 1};
const Failure too_late{ErrorCode::timeout, "it was given up", {0}};

Contribution contribution(std::uint64_t sequence, Kind kind, Bytes data) {
  return {.sequence = sequence, .piece = piece, .kind = kind, .shape = {2}, .data = data};
}

/// The requests that a worker sends to a server, in order.
std::vector<ToServer> requests(std::size_t worker) {
  const Optimizer adam{"adam", {{"beta1", 0.5}}, {{"w", {.learning_rate = 2, .wd = 0}}}};
  static const auto state = packed(
      {.rule = "adam",
       .states = {{"w", {.dtype = DType::f32, .updates = 1, .slots = {elements, elements}}}}});
  std::vector<ToServer> said{contribution(1, Kind::init, worker == 0 ? Bytes(elements) : Bytes()),
                             contribution(2, Kind::pushpull, elements),
                             SetOptimizer{3, adam},
                             contribution(4, Kind::push, elements),
                             Pull{5, piece, DType::f32, {2}, std::vector<std::int64_t>{1}},
                             PullOptimizer{6},
                             PullState{7, piece},
                             SetCompression{8, {Encoding::two_bits, 0.5F}},
                             Withdrawal{9, piece, Kind::push, too_late}};
  Contribution compressed = contribution(10, Kind::push, Bytes(elements).first(4));
  compressed.compression = {Encoding::two_bits, 0.5F};
  said.emplace_back(compressed);
  said.emplace_back(FindMissing{11, piece});
  said.emplace_back(Recall{12, 10, piece, Recall::Step::hold, {}});
  said.emplace_back(Recall{13, 10, piece, Recall::Step::give_up, too_late});
  if (worker == 0) said.emplace_back(SetState{14, piece, state});
  const std::uint64_t last = worker == 0 ? 15 : 14;
  said.emplace_back(LoadStates{last, {}, "adam", adam});
  said.emplace_back(FindMissing{last + 1, {}});
  said.emplace_back(Recall{last + 2, last, {}, Recall::Step::hold, {}});
  said.emplace_back(Recall{last + 3, last, {}, Recall::Step::release, {}});
  said.emplace_back(Goodbye{});
  return said;
}

/// All of one worker, then all of the other.
net::Bytes with_server() {
  net::Bytes conversation;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    for (const ToServer& request : requests(worker)) add(conversation, worker, request);
  }
  return conversation;
}

net::Bytes with_scheduler(int servers) {
  net::Bytes conversation;
  Register said{.workers = workers, .servers = servers, .version = version(), .host = "node1"};
  const auto nodes = static_cast<std::size_t>(workers) + static_cast<std::size_t>(servers);
  for (std::size_t node = 0; node < nodes; ++node) {
    said.role = node < workers ? Role::worker : Role::server;
    said.membership = node < workers ? first_process + node : 0;
    if (said.role == Role::server) said.brings = {{}};
    add(conversation, node, ToScheduler(said));
  }
  for (std::size_t node = workers; node < nodes; ++node) {
    add(conversation, node, ToScheduler(Ready{}));
  }
  for (std::size_t worker = 0; worker < workers; ++worker) {
    add(conversation, worker, ToScheduler(Locate{{{"w", 12, DType::f64, true}, {"b", 7}}}));
    add(conversation, worker, ToScheduler(LocateAll{}));
    add(conversation, worker, ToScheduler(BarrierArrival{}));
    add(conversation, worker, ToScheduler(ReadOn{0, 7}));
  }
  for (std::size_t worker = 0; worker < workers; ++worker) {
    add(conversation, worker, ToScheduler(Goodbye{}));
    add(conversation, worker, ToScheduler(Finished{}));
  }
  return conversation;
}

/// One store after another, until a server ends between two of them.
net::Bytes with_stores() {
  net::Bytes conversation = with_scheduler(1);
  net::append(conversation, with_scheduler(1));
  add(conversation, workers, ToScheduler(Ready{}));
  add(conversation, workers, ToScheduler(Stopping{"SIGTERM"}));
  return conversation;
}

/// A server brings a value of an earlier job, and a piece of another, ends, and comes back.
net::Bytes with_durable_server() {
  net::Bytes conversation;
  Register said{.workers = workers, .servers = 1, .version = version()};
  for (std::size_t worker = 0; worker < workers; ++worker) {
    add(conversation, worker, ToScheduler(said));
  }
  said.role = Role::server;
  said.rank = 0;
  said.durable = said.keeps = true;
  said.brings = {
      {1, {{{"w", 1, 2}, 6, DType::f32}, {{"w", 0, 2}, 6, DType::f32}, {{"v", 0, 2}, 6}}}};
  add(conversation, workers, ToScheduler(said));
  add(conversation, workers, ToScheduler(Locate{{{"w", 12, DType::f32}}}));
  add(conversation, workers, ToScheduler(Ready{}));
  add(conversation, workers, ToScheduler(Stopping{"SIGTERM"}));
  add(conversation, workers, ToScheduler(said));
  add(conversation, workers, ToScheduler(Ready{}));
  add(conversation, 0, ToScheduler(LocateAll{}));
  return conversation;
}

}  // namespace

std::span<const Decoder> decoders() {
  return all;
}

std::vector<Seed> seeds() {
  return {{0, with_server()},         {1, with_server()}, {2, with_scheduler(1)},
          {2, with_durable_server()}, {2, with_stores()}, {3, with_scheduler(most_servers)}};
}

}  // namespace tutti::fuzz
