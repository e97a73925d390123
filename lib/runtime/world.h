#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mapping.h"
#include "base/thread.h"
#include "mpi/communicator.h"
#include "runtime/lookout.h"
#include "runtime/place.h"
#include "shm/shared_cache.h"
#include "tutti/options.h"

namespace tutti::runtime {

/// The ranks that take part in a store, and the means by which they first find each other.
/// Production uses MPI. Tests make worlds whose ranks are threads of one process.
struct World : Place {
  /// How many stores the ranks had made together before.
  int creation_number = 0;
  /// Collective: everyone's text, by rank. `waiting_for` completes "waiting for ..." in the error
  /// of a rank that waited longer than `create_timeout`.
  std::function<std::vector<std::string>(std::string mine, const std::string& waiting_for)>
      all_gather;
  /// Tells every wait which ranks are lost. Null if ranks cannot get lost, as in tests.
  std::shared_ptr<Lookout> lookout;
  /// The communicator of all stores of these ranks, until the process ends. Null if no rank is on
  /// another node.
  const mpi::Communicator* lasting = nullptr;
  /// Collective: a communicator for the store alone. Empty where no rank is on another node.
  std::function<std::unique_ptr<mpi::Communicator>()> duplicate;
  /// The bytes of the cache that this machine's ranks share.
  std::size_t cache_bytes = shm::shared_cache_bytes();
  /// The processors that this rank may run on.
  std::set<int> processors = base::usable_cpus();
  /// How a shared memory file gets into this process.
  base::Mapper map = base::map_file;
};

/// Calls `create` with the world of a new store. Collective over `options.ranks` (MPI_COMM_WORLD if
/// it is empty), and blocking. Threads of one process that create stores over the same ranks take
/// turns; over different ranks they create at the same time. Initialises MPI unless the program
/// has, which is collective over MPI_COMM_WORLD. Calls `create` again when another rank has begun
/// anew. Throws `mismatch` if MPI_COMM_WORLD is smaller than the launcher says. Throws
/// `invalid_argument` if `ranks` has ranks that MPI_COMM_WORLD does not have, or lacks this
/// process's rank.
void with_mpi_world(const Options& options, const std::function<void(World)>& create);

/// Whether `options.ranks` is this process's rank alone; needs no other rank and starts nothing.
/// Throws `invalid_argument` when it is another rank alone.
bool is_alone(const Options& options);

}  // namespace tutti::runtime
