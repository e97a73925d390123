// Times tutti's allreduce or broadcast beside MPI's. See --help.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "benchmarks/allreduce/program.h"
#include "tutti/tutti.h"

namespace {

using namespace tutti::bench;

std::shared_ptr<tutti::KVStore> open_store(const World& world, const Settings& settings,
                                           const tutti::Options& options) {
  std::shared_ptr<tutti::KVStore> store = tutti::KVStore::create(settings.store, options);
  if (store->num_workers() != world.size()) {
    throw tutti::Error(
        tutti::ErrorCode::invalid_argument,
        fmt::format("a store of type '{}' has {} process, but {} processes take part; start one "
                    "process, or ask for --kv-store dist_sync_mpi",
                    store->type(), store->num_workers(), world.size()));
  }
  if (settings.wire != "none") store->set_gradient_compression(settings.wire);
  return store;
}

/// The name is the same on all ranks, and differs from every other run's.
std::string timeline_file(const World& world) {
  const auto processes = world.gather(host_name() + "-" + std::to_string(::getpid()));
  return std::filesystem::temp_directory_path() / ("allreduce_bench-" + processes[0] + ".json");
}

}  // namespace

int main(int argc, char** argv) {
  std::string timeline;
  const int status = run_program(argc, argv, {}, [&](const World& world, const Settings& settings) {
    const tutti::Options options = tutti::Options::from_env();
    Contestants contestants;
    // This store is made first, because the file of a later store has a number in its name.
    if (settings.runs("timeline")) {
      tutti::Options recording = options;
      recording.timeline = timeline = timeline_file(world);
      contestants.push_back(make_tutti("timeline", open_store(world, settings, recording), settings,
                                       Measured::calls));
    }
    if (settings.runs("irreproducible")) {
      tutti::Options free = options;
      free.reproducible = false;
      contestants.push_back(make_tutti("irreproducible", open_store(world, settings, free),
                                       settings, Measured::calls));
    }
    if (settings.runs("tutti") || settings.runs("persistent")) {
      const auto store = open_store(world, settings, options);
      const auto add = [&](const char* impl, Measured measured) {
        contestants.push_back(make_tutti(impl, store, settings, measured));
      };
      if (settings.runs("tutti")) add("tutti", Measured::calls);
      if (settings.shared) add("tutti", Measured::shared);
      if (settings.runs("persistent")) add("persistent", Measured::persistent);
    }
    return contestants;
  });
  // The file was written when its store closed. Only the time counts, so it is deleted.
  std::error_code not_there;
  if (!timeline.empty()) std::filesystem::remove(timeline, not_there);
  return status;
}
