// Prints how this tutti was built and what it runs on, the GPUs, its options, and whether a
// dist_sync_mpi store can be created: alone, or under mpirun with all processes. Then the sizes and
// policies that the store uses, and the memory that it takes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <optional>

#include "examples/command_line/command_line.h"
#include "tutti/info.h"
#include "tutti/tutti.h"

namespace {

void print_facts(const char* title, const std::vector<tutti::Fact>& facts) {
  fmt::print("{}\n", title);
  for (const tutti::Fact& fact : facts) fmt::print("  {:<30} {}\n", fact.name, fact.value);
}

void print_options(const tutti::Options& options) {
  fmt::print("\nOptions (* set in the environment)\n");
  for (const tutti::Fact& fact : tutti::describe(options)) {
    const bool set = std::getenv(fact.name.c_str()) != nullptr;
    fmt::print("{} {:<30} {}\n", set ? '*' : ' ', fact.name,
               fact.value.empty() ? "(not set)" : fact.value);
  }
}

void print_choices(const tutti::KVStore& store) {
  fmt::print("\nTuning                             value, and where it comes from\n");
  for (const tutti::Choice& choice : store.choices()) {
    fmt::print("  {:<30} {}  ({})\n", choice.name, choice.value, choice.origin);
  }
}

double mib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

/// A job of any size, not only this one.
struct Job {
  int ranks = 0;  ///< on each node; 0: none asked for
  int nodes = 1;
};

void print_memory(const tutti::Options& options, const Job& job, const tutti::KVStore* store) {
  fmt::print("\nMemory of a rank (further: 1.25 KiB a key in flight, and what `allocate` gives)\n");
  if (store != nullptr) {
    fmt::print("  {:<30} {:.2f} MiB\n", "this store's buffers",
               mib(store->counters().buffer_bytes));
  }
  const auto print = [&](int ranks, int nodes) {
    const std::string label = fmt::format("{} node{} of {} rank{}", nodes, nodes > 1 ? "s" : "",
                                          ranks, ranks > 1 ? "s" : "");
    const std::uint64_t bytes = tutti::most_buffer_bytes(options, ranks, nodes);
    fmt::print("  {:<30} at most {:.2f} MiB, {:.1f} MiB a node\n", label, mib(bytes),
               mib(bytes * static_cast<std::uint64_t>(ranks)));
  };
  if (job.ranks > 0) return print(job.ranks, job.nodes);
  for (const int ranks : {1, 2, 4, 8, 64}) print(ranks, job.nodes);
}

/// The store is created before anything is printed, for it knows the rank and MPI's thread level.
int inform(const Job& job) {
  const tutti::Options options = tutti::Options::from_env();
  std::unique_ptr<tutti::KVStore> store;
  std::optional<tutti::Error> trouble;
  try {
    store = tutti::KVStore::create("dist_sync_mpi", options);
    if (store->rank() != 0) return 0;
  } catch (const tutti::Error& error) {
    trouble = error;
  }
  print_facts("Build and libraries", tutti::build_info());
  print_facts("\nGPUs", tutti::gpu_info());
  print_options(options);
  fmt::print("\nStore dist_sync_mpi\n");
  if (trouble) {
    fmt::print("  does not come up: {}\n", trouble->what());
    print_memory(options, job, nullptr);
    return trouble->code() == tutti::ErrorCode::unsupported ? 0 : 1;
  }
  fmt::print("  {:<30} {}\n  {:<30} {}\n", "processes", store->num_workers(), "nodes",
             store->counters().nodes);
  print_choices(*store);
  print_memory(options, job, store.get());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Prints what this tutti is built of, the GPUs, its options, whether a dist_sync_mpi store "
      "comes up, "
      "what "
      "it works with and where that comes from, and the memory it takes.\n"
      "Alone, or under mpirun: mpirun -n N tutti-info");
  Job job;
  app.add_option("--ranks", job.ranks, "tell the memory for so many ranks on each node")
      ->check(command_line::between(1, 1 << 16));
  app.add_option("--nodes", job.nodes, "... and so many nodes")
      ->check(command_line::between(1, 1 << 16))
      ->capture_default_str();
  if (const auto status = command_line::parse_or_status(app, argc, argv)) return *status;
  try {
    return inform(job);
  } catch (const tutti::Error& error) {
    fmt::print(stderr, "tutti-info: {}\n", error.what());
    return command_line::exit_status(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti-info: {}\n", error.what());
    return 1;
  }
}
