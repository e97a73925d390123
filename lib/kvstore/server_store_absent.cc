// This file stands in for the parameter server in a build without it.
#include "kvstore/server_store.h"
#include "tutti/error.h"
#include "tutti/server.h"

namespace tutti {

std::unique_ptr<Backend> make_server_backend(const StoreType& type, const Options&) {
  throw Error(ErrorCode::unsupported,
              "this build of tutti has no parameter server, which store type '" + type.name +
                  "' needs; build with -Dps=enabled, or ask for 'dist_sync_mpi' and start the "
                  "program with mpirun");
}

bool run_server(const Options&, const Durability&) {
  throw Error(ErrorCode::unsupported,
              "this build of tutti has no parameter server; build with -Dps=enabled");
}

}  // namespace tutti
