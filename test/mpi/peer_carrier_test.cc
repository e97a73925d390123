// Tensors between ranks that are a node each; run under mpirun with two ranks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <numeric>
#include <vector>

#include "mpi/library.h"
#include "p2p/messenger.h"

using namespace tutti;
using namespace tutti::p2p;
using std::chrono::seconds;

namespace {

/// One rank's messenger, alone on its node.
struct Side {
  explicit Side(const mpi::Communicator& world)
      : topology(topology::make_topology(world.rank(), std::vector<int>{0, 1})),
        memory(base::create_memory_file("pairs", PairMemory::bytes(1)), base::map_file, 0, {&bell}),
        messenger(topology, seconds(60), memory, BetweenNodes{.communicator = &world},
                  [](int) { return false; }) {}

  base::Doorbell bell;
  const topology::Topology topology;
  PairMemory memory;
  Messenger messenger;
};

std::unique_ptr<mpi::Communicator> start_world() {
  mpi::start({});
  auto world = std::make_unique<mpi::Communicator>(mpi::Communicator::world(seconds(60)));
  REQUIRE(world->size() == 2);
  return world;
}

/// Looks until the rank's calls are over, while this time does not pass.
std::vector<TransferDone> end_of(Messenger& messenger, SessionTime now) {
  const auto patience = base::Clock::now() + seconds(60);
  while (!messenger.empty() && base::Clock::now() < patience) messenger.step(now);
  return messenger.take_finished();
}

}  // namespace

TEST_CASE("small tensors travel between nodes with their announcement") {
  const auto world = start_world();
  Side side(*world);
  std::vector<std::uint32_t> numbers(EagerSends::largest / 4 + 1);
  const auto bytes = std::as_writable_bytes(std::span(numbers));
  const int other = 1 - world->rank();
  side.messenger.open(other, Carrier::Use::send);
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, numbers.size() - 1, numbers.size()}) {
    const Envelope envelope{.peer = other, .dtype = DType::i32, .count = count};
    const bool sends = world->rank() == 0;
    for (TransferId call = 0; call < 20; ++call) {
      std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(sends ? call : 1000));
      if (sends) side.messenger.send({}, call, envelope, bytes.first(count * 4));
      CHECK(side.messenger.is_moving() == false);
      // Its memory is not needed any more, unless it is too large.
      if (sends && count < numbers.size()) std::fill(numbers.begin(), numbers.end(), 0U);
      if (!sends) side.messenger.receive({}, call, envelope, bytes.first(count * 4));
      const std::vector<TransferDone> over = end_of(side.messenger, {});
      REQUIRE(over.size() == 1);
      CHECK_FALSE(over[0].error);
      if (sends || count == 0) continue;
      CHECK(numbers[0] == call);
      CHECK(numbers[count - 1] == call + count - 1);
    }
  }
  world->all_gather("", seconds(60), "the other rank");
}

TEST_CASE("a receive between nodes that comes after a small send was given up ends with it") {
  const auto world = start_world();
  Side side(*world);
  std::vector<std::uint32_t> numbers(100);
  const auto bytes = std::as_writable_bytes(std::span(numbers));
  const Envelope envelope{.peer = 1 - world->rank(), .dtype = DType::i32, .count = 100};
  side.messenger.open(envelope.peer, Carrier::Use::send);
  const auto is_late = [&](SessionTime now) {
    const std::vector<TransferDone> over = end_of(side.messenger, now);
    return over.size() == 1 && over[0].error && over[0].error->code() == ErrorCode::timeout;
  };
  if (world->rank() == 0) {
    side.messenger.send({}, 1, envelope, bytes);
    CHECK(is_late(seconds(60)));
  }
  world->all_gather("", seconds(60), "the other rank");
  if (world->rank() == 1) {
    side.messenger.receive(seconds(70), 1, envelope, bytes);
    CHECK(is_late(seconds(70)));
  }
  world->all_gather("", seconds(60), "the other rank");
}

TEST_CASE("elements may travel between nodes for longer than the time limit") {
  const auto world = start_world();
  Side side(*world);
  std::vector<std::uint32_t> numbers(6'000'000);
  const auto bytes = std::as_writable_bytes(std::span(numbers));
  const Envelope envelope{.peer = 1 - world->rank(), .dtype = DType::i32, .count = numbers.size()};
  side.messenger.open(envelope.peer, Carrier::Use::send);
  SessionTime now{};
  if (world->rank() == 0) {
    std::iota(numbers.begin(), numbers.end(), 7U);
    side.messenger.send(now, 1, envelope, bytes);
  } else {
    side.messenger.receive(now, 1, envelope, bytes);
  }
  // Time passes only while something moves, some messages of a piece for example.
  const auto patience = base::Clock::now() + seconds(60);
  while (!side.messenger.empty() && base::Clock::now() < patience) {
    if (side.messenger.step(now)) now += seconds(4);
  }
  CHECK(side.messenger.empty());
  CHECK(now > seconds(120));
  CHECK(numbers.front() == 7U);
  CHECK(numbers.back() == 6'000'006U);
  world->all_gather("", seconds(60), "the other rank");
}
