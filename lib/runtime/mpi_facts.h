#pragma once
#include "runtime/agreement.h"

namespace tutti::runtime {

/// For people: which MPI this library was compiled against, which one is loaded, and the thread
/// level that it gives ("none" before it is initialised).
Facts mpi_facts();

}  // namespace tutti::runtime
