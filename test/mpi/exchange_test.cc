// Exchanges between ranks that are a node each, under mpirun.
#include "collective/exchange.h"

#include <catch2/catch.hpp>
#include <chrono>
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

TEST_CASE("what arrives while an exchange is given up goes nowhere that it has let go of") {
  tutti::mpi::start({});
  const auto world = tutti::mpi::Communicator::world(60s);
  const int ranks = world.size();
  std::vector<int> kin(static_cast<std::size_t>(ranks));
  std::iota(kin.begin(), kin.end(), 0);
  // So large that memory goes back to the system when it is freed.
  constexpr std::size_t bytes = std::size_t{16} << 20;
  constexpr std::size_t count = bytes / sizeof(float);
  // MPI may need it until the process ends: on a busy machine others take longer than an exchange
  // that is given up waits for them.
  static auto& shard = *new std::vector<float>(count, 1);
  const auto me = static_cast<std::size_t>(world.rank());
  const auto topology = tutti::topology::make_topology(world.rank(), kin);
  std::optional<Exchange> exchange(std::in_place, world, kin, me, NodeSum(topology),
                                   Exchange::Limits{bytes, 0}, 0);
  const tutti::reduce::Kernel kernel{DType::f32, DType::f32};
  exchange->start(kernel, WireFormat::none, reinterpret_cast<std::byte*>(shard.data()), count);
  // Rank 0 lets go in the middle of it.
  const auto end = std::chrono::steady_clock::now() + (world.rank() == 0 ? 2ms : 100ms);
  while (std::chrono::steady_clock::now() < end) exchange->step();
  CHECK(exchange->is_busy());
  exchange.reset();
  world.all_gather("", 60s, "the others");
}
