// This file stands in for the collective store in a build without MPI.
#include "kvstore/collective_store.h"

namespace tutti {

std::unique_ptr<Backend> make_collective_backend(const std::string& type, const Options&) {
  throw Error(ErrorCode::unsupported,
              "this build of tutti has no MPI, which store type '" + type +
                  "' needs: install an MPI library and build with -Dmpi=enabled, or use 'local' in "
                  "one process");
}

}  // namespace tutti
