// lib/mpi's communicator under mpirun.
#include "mpi/communicator.h"

#include <mpi.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "mpi/library.h"
#include "tutti/error.h"

using namespace std::chrono_literals;
using tutti::mpi::Communicator;

namespace {

/// MPI is the program's own, which finalises it though a call was given up; tutti would not.
struct Mpi {
  Mpi() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    tutti::mpi::start({});
  }
  ~Mpi() {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
  }
};

void start() {
  static const Mpi mpi;
}

/// Lets MPI do its remaining work until the late rank has come and gone.
void progress() {
  for (int i = 0; i < 200; ++i) {
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(5ms);
  }
}

}  // namespace

TEST_CASE("everyone gets everyone's text, by rank, whatever its length") {
  start();
  const Communicator world = Communicator::world(60s);
  const auto text = [](int rank) {
    return std::string(static_cast<std::size_t>(rank * 1000), static_cast<char>('a' + rank));
  };
  const auto texts = world.all_gather(text(world.rank()), 60s, "the others");
  REQUIRE(texts.size() == static_cast<std::size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank) {
    CHECK(texts[static_cast<std::size_t>(rank)] == text(rank));
  }
}

// Last: what never ended leaves MPI unfit for more.
TEST_CASE("MPI writes to no memory of the program after a gathering was given up") {
  start();
  const Communicator world = Communicator::world(60s);
  if (world.size() == 1) return;
  if (world.rank() == 1) std::this_thread::sleep_for(800ms);
  try {
    world.all_gather(std::string(100, 'x'), 200ms, "rank 1");
    // The late one may find the others' lengths, but not their texts.
    CHECK(world.rank() == 1);
  } catch (const tutti::Error& error) {
    CHECK(error.code() == tutti::ErrorCode::timeout);
    CHECK_THAT(error.what(),
               Catch::Contains("waited 0.2 s (create_timeout, TUTTI_CREATE_SECONDS) for rank 1"));
  }
  std::vector<std::vector<char>> blocks;
  for (std::size_t i = 0; i < 2000; ++i) blocks.emplace_back(4 + i % 64, 0x55);
  progress();
  int overwritten = 0;
  for (const auto& block : blocks) {
    for (const char byte : block) overwritten += byte != 0x55 ? 1 : 0;
  }
  CHECK(overwritten == 0);
}
