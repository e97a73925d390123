#pragma once
#include "runtime/agreement.h"

namespace tutti::runtime {

/// Facts for people to read: which MPI this library was compiled against; which one is loaded; the
/// thread level that it gives, or "none" before it is initialised; and whether it moves device
/// memory.
Facts mpi_facts();

}  // namespace tutti::runtime
