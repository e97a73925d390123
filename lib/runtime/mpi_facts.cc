#include "runtime/mpi_facts.h"

#include "mpi/library.h"

namespace tutti::runtime {

Facts mpi_facts() {
  return {{"MPI compiled against", mpi::compiled_library()},
          {"MPI loaded", mpi::loaded_library()},
          {"MPI thread level", mpi::thread_level()},
          {"MPI is CUDA-aware", mpi::is_cuda_aware() ? "yes" : "no"}};
}

}  // namespace tutti::runtime
