// KVStore::create: from a type string to a backend.
#include <algorithm>
#include <atomic>

#include "base/launcher.h"
#include "base/log.h"
#include "base/printable.h"
#include "cuda/gpu.h"
#include "kvstore/checks.h"
#include "kvstore/collective_store.h"
#include "kvstore/environment.h"
#include "kvstore/local_store.h"
#include "kvstore/server_store.h"
#include "kvstore/types.h"

namespace tutti {
namespace {

std::string variable_of(const Environment& environment, std::string_view name) {
  const auto found = std::ranges::find(environment, name, &Environment::value_type::first);
  return found == environment.end() ? std::string() : found->second;
}

/// A rank and a size as the launcher told them. If they are empty, no launcher was found.
struct RankAndSize {
  std::string rank;
  std::string size;
};

RankAndSize place_in_job() {
  const Environment environment = process_environment();
  for (const auto& [size_name, rank_name] : base::launcher_variables) {
    RankAndSize place{variable_of(environment, rank_name), variable_of(environment, size_name)};
    if (!place.rank.empty() && !place.size.empty()) return place;
  }
  return {};
}

/// Warns once in a process, even if the process makes many stores.
void warn_of_lone_processes(const StoreType& type, const RankAndSize& place) {
  static std::atomic<bool> said{false};
  if (place.size.empty() || place.size == "1" || said.exchange(true)) return;
  base::log().warn(
      "this job has {} processes, but store type '{}' exchanges nothing between them, so each "
      "process works alone; 'dist_sync_mpi' sums over all of them",
      base::printable(place.size), type.name);
}

/// Warns a program that asks for a store of one process, if other processes of its job exist. Only
/// one rank logs it.
void warn_of_one_process(const StoreType& type, const Options& options) {
  const RankAndSize place = place_in_job();
  if (!place.rank.empty() && place.rank != "0") return;
  warn_of_lone_processes(type, place);
  warn_of_no_timeline(options, "store type '" + type.name + "'");
}

std::unique_ptr<Backend> make_backend(const StoreType& type, const Options& options) {
  switch (type.family) {
    case Family::collective:
      return make_collective_backend(type.name, options);
    case Family::local:
      warn_of_one_process(type, options);
      return make_local_backend(type.name, Takes::cpu, options);
    case Family::device:
      warn_of_one_process(type, options);
      return make_local_backend(type.name, Takes::cpu_and_gpu, options);
    case Family::parameter_server:
      return make_server_backend(type, options);
    case Family::nccl:
      if (!cuda::is_built()) {
        throw Error(ErrorCode::unsupported,
                    "this build of tutti has no CUDA and NCCL, which store type '" + type.name +
                        "' needs; 'device' sums over the devices of one process");
      }
      warn_of_one_process(type, options);
      return make_local_backend(type.name, Takes::gpu, options);
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
