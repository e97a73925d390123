// Times tutti's allreduce or broadcast beside MPI's. See --help.
#include <fmt/format.h>

#include "benchmarks/allreduce/program.h"
#include "tutti/tutti.h"

namespace {

using namespace tutti::bench;

std::shared_ptr<tutti::KVStore> open_store(const World& world, const Settings& settings) {
  std::shared_ptr<tutti::KVStore> store = tutti::KVStore::create(settings.store);
  if (store->num_workers() != world.size()) {
    throw tutti::Error(
        tutti::ErrorCode::invalid_argument,
        fmt::format("a store of type '{}' is of {} process, but {} take part; measure it alone, or "
                    "ask for --kv-store dist_sync_mpi",
                    store->type(), store->num_workers(), world.size()));
  }
  if (settings.wire != "none") store->set_gradient_compression(settings.wire);
  return store;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, {}, [](const World& world, const Settings& settings) {
    const auto store = open_store(world, settings);
    Contestants contestants;
    contestants.push_back(make_tutti(store, settings, false));
    if (settings.shared) contestants.push_back(make_tutti(store, settings, true));
    return contestants;
  });
}
