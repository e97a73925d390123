// Tensors between ranks that are a node each; run under mpirun with two ranks.
#include <catch2/catch.hpp>
#include <chrono>
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

}  // namespace

TEST_CASE("elements may travel between nodes for longer than the time limit") {
  mpi::start({});
  const auto world = mpi::Communicator::world(seconds(60));
  REQUIRE(world.size() == 2);
  Side side(world);
  std::vector<std::uint32_t> numbers(6'000'000);
  const auto bytes = std::as_writable_bytes(std::span(numbers));
  const Envelope envelope{.peer = 1 - world.rank(), .dtype = DType::i32, .count = numbers.size()};
  side.messenger.open(envelope.peer, Carrier::Use::send);
  SessionTime now{};
  if (world.rank() == 0) {
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
  world.all_gather("", seconds(60), "the other rank");
}
