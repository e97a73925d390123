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

/// The ranks that take part in a store, and the means by which they first find each other. A
/// program uses MPI. Tests make worlds whose ranks are threads of one process.
struct World : Place {
  /// The number of stores that the ranks had made together before.
  int creation_number = 0;
  /// Collective: returns the text of each rank. `waiting_for` completes "waiting for ..." in the
  /// error of a rank that waited longer than `create_timeout`.
  std::function<std::vector<std::string>(std::string mine, const std::string& waiting_for)>
      all_gather;
  /// Tells every wait which ranks are lost. Null if ranks cannot get lost, as in tests.
  std::shared_ptr<Lookout> lookout;
  /// The communicator that all stores of these ranks share until the process ends. Null if no rank
  /// is on another node.
  const mpi::Communicator* lasting = nullptr;
  /// Collective: returns a communicator for this store alone. Empty if no rank is on another node.
  std::function<std::unique_ptr<mpi::Communicator>()> duplicate;
  /// The size in bytes of the cache that this machine's ranks share.
  std::size_t cache_bytes = shm::shared_cache_bytes();
  /// The processors that this rank may run on.
  std::set<int> processors = base::usable_cpus();
  /// Maps a shared memory file into this process.
  base::Mapper map = base::map_file;
};

/// Calls `create` with the world of a new store. Collective over `options.ranks`, or over
/// MPI_COMM_WORLD if that list is empty. Blocking.
///
/// Threads of one process that create stores over the same ranks take turns; over different ranks
/// they create stores at the same time. Initialises MPI unless the program has; that is collective
/// over MPI_COMM_WORLD. Calls `create` again if another rank has begun anew.
///
/// Throws `mismatch` if MPI_COMM_WORLD is smaller than the launcher says. Throws `invalid_argument`
/// if `ranks` has ranks that MPI_COMM_WORLD does not have, or lacks this process's rank.
void with_mpi_world(const Options& options, const std::function<void(World)>& create);

/// Whether `options.ranks` holds only this process's rank. Needs no other rank and starts nothing.
/// Throws `invalid_argument` if it holds only another rank.
bool is_alone(const Options& options);

}  // namespace tutti::runtime
