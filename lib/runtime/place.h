#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tutti/error.h"

namespace tutti::runtime {

/// Which rank of a store this process is, and which ranks of the job the store's ranks are.
struct Place {
  int rank = 0;
  int size = 1;
  /// The rank in MPI_COMM_WORLD of each rank of the store, ascending. Empty: they are the same.
  std::vector<int> world_ranks{};

  /// This process's, in MPI_COMM_WORLD.
  int world_rank() const;
  /// Adds the job's ranks to a message that has the store's ranks.
  std::string explain(std::string message) const;
  /// The message of a loss, in the job's ranks, because the launcher reads the log: it begins with
  /// the job's rank.
  std::string announce(int lost, const std::string& message) const;
  Error explain(const Error& error) const;
};

}  // namespace tutti::runtime
