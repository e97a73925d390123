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

/// Collective over `options.ranks` (MPI_COMM_WORLD if it is empty), blocking: calls `create` with
/// the world of a new store. Threads of one process take turns at a world; at several they create
/// at the same time. Initialises MPI if nobody has, which is collective over MPI_COMM_WORLD. Throws
/// `mismatch` when that is smaller than the launcher says, and `invalid_argument` for ranks that it
/// does not have or without this process's. Calls `create` again when another rank has begun anew.
void with_mpi_world(const Options& options, const std::function<void(World)>& create);

/// Whether `options.ranks` is this process's rank alone; needs no other rank and starts nothing.
/// Throws `invalid_argument` when it is another rank alone.
bool is_alone(const Options& options);

}  // namespace tutti::runtime
