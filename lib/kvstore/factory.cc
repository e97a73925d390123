// KVStore::create: from a type string to a backend.
#include <algorithm>

#include "base/log.h"
#include "base/printable.h"
#include "kvstore/collective_store.h"
#include "kvstore/environment.h"
#include "kvstore/local_store.h"
#include "kvstore/types.h"

namespace tutti {
namespace {

std::string variable_of(const Environment& environment, std::string_view name) {
  const auto found = std::ranges::find(environment, name, &Environment::value_type::first);
  return found == environment.end() ? std::string() : found->second;
}

/// What a program may not know that asks for a store of one process. One rank says it for all.
void warn_of_one_process(const StoreType& type, const Options& options) {
  const Environment environment = process_environment();
  const std::string ranks = variable_of(environment, "OMPI_COMM_WORLD_SIZE");
  const std::string rank = variable_of(environment, "OMPI_COMM_WORLD_RANK");
  if (!rank.empty() && rank != "0") return;
  if (!ranks.empty() && ranks != "1") {
    base::log().warn(
        "this job has {} processes, and store type '{}' exchanges nothing between "
        "them: each works alone; 'dist_sync_mpi' sums over all of them",
        ranks, type.name);
  }
  if (!options.timeline.empty()) {
    base::log().warn(
        "store type '{}' records no timeline, so {} (TUTTI_TIMELINE) is not written; "
        "'dist_sync_mpi' records one",
        type.name, base::quoted(options.timeline));
  }
}

std::unique_ptr<Backend> make_backend(const StoreType& type, const Options& options) {
  switch (type.family) {
    case Family::collective:
      return make_collective_backend(type.name, options);
    case Family::local:
      warn_of_one_process(type, options);
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
