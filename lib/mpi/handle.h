#pragma once
#include <mpi.h>

#include "mpi/communicator.h"

namespace tutti::mpi {

/// Inside lib/mpi only.
struct Communicator::Handle {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 0;
  bool abandoned = false;
};

}  // namespace tutti::mpi
