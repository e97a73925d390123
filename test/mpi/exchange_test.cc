// Exchanges between ranks that are a node each, under mpirun.
#include "collective/exchange.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "mpi/library.h"

using namespace std::chrono_literals;
using tutti::DType;
using tutti::WireFormat;
using tutti::collective::Exchange;
using tutti::collective::NodeSum;
using tutti::mpi::Communicator;

TEST_CASE("what arrives while an exchange is given up goes nowhere that it has let go of") {
  tutti::mpi::start({});
  const auto world = Communicator::world(60s);
  std::optional<Communicator> lane = world.duplicate(60s);
  const bool gives_up = world.rank() == 0;
  std::vector<int> kin(static_cast<std::size_t>(world.size()));
  std::iota(kin.begin(), kin.end(), 0);
  // So large that memory goes back to the system when it is freed.
  constexpr std::size_t bytes = std::size_t{16} << 20;
  constexpr std::size_t count = bytes / sizeof(float);
  auto shard = std::make_shared<std::vector<float>>(count, 1.0F);
  lane->hold(shard);
  const auto me = static_cast<std::size_t>(world.rank());
  const auto topology = tutti::topology::make_topology(world.rank(), kin);
  std::optional<Exchange> exchange(std::in_place, *lane, kin, me, NodeSum(topology),
                                   Exchange::Limits{bytes, 0}, 0);
  const tutti::reduce::Kernel kernel{DType::f32, DType::f32};
  exchange->start(kernel, WireFormat::none, reinterpret_cast<std::byte*>(shard->data()), count);
  const auto drive = [&](auto time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) exchange->step();
  };
  drive(2ms);
  CHECK(exchange->is_busy());
  // Rank 0 lets go in the middle of it. The others do not call MPI for longer than it waits then.
  if (!gives_up) {
    std::this_thread::sleep_for(1s);
    drive(100ms);
  }
  exchange.reset();
  shard.reset();
  lane->abandon();
  lane.reset();
  world.all_gather("", 60s, "the others");
}
