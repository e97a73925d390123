#include "runtime/mpi_facts.h"

#include "mpi/library.h"

namespace tutti::runtime {

Facts mpi_facts() {
  return {{"MPI compiled against", mpi::compiled_library()},
          {"MPI loaded", mpi::loaded_library()},
          {"MPI thread level", mpi::thread_level()}};
}

}  // namespace tutti::runtime
