// A chunk of a broadcast between nodes, each rank of mpirun standing for one.
#include "collective/node_broadcast.h"

#include <mpi.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "mpi/library.h"

using namespace std::chrono_literals;
using tutti::collective::NodeBroadcast;
using tutti::mpi::Communicator;
using tutti::mpi::message_bytes;

namespace {

/// Opened once; finalised behind the last broadcast.
struct Job {
  Job() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    tutti::mpi::start({});
    world.emplace(Communicator::world(60s));
  }
  ~Job() {
    MPI_Barrier(MPI_COMM_WORLD);
    world.reset();
    MPI_Finalize();
  }
  std::optional<Communicator> world;
};

const Communicator& world() {
  static const Job job;
  return *job.world;
}

std::byte pattern(std::size_t index, int turn) {
  return static_cast<std::byte>(index % 251 + static_cast<std::size_t>(turn));
}

/// Every rank's place when that rank is the first stop, and the others follow in a ring.
std::vector<int> stops_from(int root) {
  std::vector<int> stops(static_cast<std::size_t>(world().size()));
  std::iota(stops.begin(), stops.end(), 0);
  std::rotate(stops.begin(), stops.begin() + root, stops.end());
  return stops;
}

/// Returns whether this rank has the root's bytes at the end.
bool carry(NodeBroadcast& broadcast, int root, std::size_t bytes, bool alone, int turn) {
  const auto size = static_cast<std::size_t>(world().size());
  const auto me = (static_cast<std::size_t>(world().rank() - root) + size) % size;
  std::vector<std::byte> chunk(bytes);
  for (std::size_t i = 0; me == 0 && i < bytes; ++i) chunk[i] = pattern(i, turn);
  broadcast.start(stops_from(root), me, alone, chunk);
  const auto deadline = tutti::base::Clock::now() + 30s;
  while (!broadcast.poll_sent()) {
    if (tutti::base::Clock::now() > deadline) FAIL("it hangs: " << broadcast.describe());
  }
  bool right = broadcast.poll_arrived();
  for (std::size_t i = 0; i < bytes; ++i) right = right && chunk[i] == pattern(i, turn);
  return right;
}

}  // namespace

TEST_CASE("what is relayed arrives as it was, along a chain and in a tree, from every rank") {
  NodeBroadcast broadcast(world(), 0);
  int turn = 0;
  for (const std::size_t bytes :
       {std::size_t{1}, message_bytes - 1, message_bytes, message_bytes + 1, 2 * message_bytes,
        3 * message_bytes + 5, 9 * message_bytes}) {
    for (const bool alone : {true, false}) {
      for (int root = 0; root < world().size(); ++root) {
        CAPTURE(bytes, alone, root);
        REQUIRE(carry(broadcast, root, bytes, alone, turn++));
      }
    }
  }
}

TEST_CASE("of a chain's link every byte is sent once, and the last stop sends nothing") {
  NodeBroadcast broadcast(world(), 1);
  const std::size_t bytes = 5 * message_bytes + 7;
  REQUIRE(carry(broadcast, 0, bytes, false, 0));
  CHECK(broadcast.bytes_sent() == (world().rank() + 1 < world().size() ? bytes : 0));
}
