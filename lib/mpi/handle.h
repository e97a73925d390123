#pragma once
#include <mpi.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mpi/communicator.h"

namespace tutti::mpi {

/// For lib/mpi only. Because of it communicator.h does not include mpi.h.
struct Communicator::Handle {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 0;
  bool abandoned = false;
  /// Last words: the text that this rank sends, which MPI may read as long as the process lives,
  /// and the text that this rank has received.
  std::string told;
  std::optional<std::string> heard;
  /// The objects that have transfers under way share this list.
  std::shared_ptr<std::vector<std::shared_ptr<const void>>> held =
      std::make_shared<std::vector<std::shared_ptr<const void>>>();
};

}  // namespace tutti::mpi
