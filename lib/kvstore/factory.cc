// KVStore::create: from a type string to a backend.
#include "base/log.h"
#include "kvstore/collective_store.h"
#include "kvstore/environment.h"
#include "kvstore/local_store.h"
#include "kvstore/types.h"

namespace tutti {
namespace {

std::unique_ptr<Backend> make_backend(const StoreType& type, const Options& options) {
  switch (type.family) {
    case Family::collective:
      return make_collective_backend(type.name, options);
    case Family::local:
      return make_local_backend(type.name);
    case Family::parameter_server:
      throw Error(ErrorCode::unsupported,
                  "this build of tutti has no parameter server, which store type '" + type.name +
                      "' needs; ask for 'dist_sync_mpi' and start the program with mpirun");
    case Family::nccl:
      throw Error(ErrorCode::unsupported,
                  "this build of tutti has no CUDA and NCCL, which store type '" + type.name +
                      "' needs; 'device' sums over the devices of one process");
  }
  throw Error(ErrorCode::internal, "store type '" + type.name + "' belongs to no family");
}

}  // namespace

std::unique_ptr<KVStore> KVStore::create(std::string_view type) {
  return create(type, Options::from_env());
}

std::unique_ptr<KVStore> KVStore::create(std::string_view type, const Options& options) {
  const StoreType found = find_store_type(type, launch_mode(process_environment()));
  check(options);
  base::set_log_level(options.log_level);
  return std::make_unique<KVStore>(make_backend(found, options));
}

}  // namespace tutti
