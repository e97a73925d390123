#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tutti/error.h"

namespace tutti::runtime {

/// The rank of this process in a store, and the ranks that the store's ranks have in the job.
struct Place {
  int rank = 0;
  int size = 1;
  /// For each rank of the store its rank in MPI_COMM_WORLD, ascending. Empty if both are the same.
  std::vector<int> world_ranks{};

  /// This process's rank in MPI_COMM_WORLD.
  int world_rank() const;
  /// Adds the job's ranks to a message that names the store's ranks.
  std::string explain(std::string message) const;
  /// The message of a loss. It begins with the job's rank, because the launcher reads the log.
  std::string announce(int lost, const std::string& message) const;
  Error explain(const Error& error) const;
};

}  // namespace tutti::runtime
