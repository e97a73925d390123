#pragma once
#include <mpi.h>

#include "mpi/communicator.h"

namespace tutti::mpi {

/// For lib/mpi only, so that communicator.h does not include mpi.h.
struct Communicator::Handle {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 0;
  bool abandoned = false;
};

}  // namespace tutti::mpi
