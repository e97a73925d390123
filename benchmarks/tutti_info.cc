// Prints how this tutti was built and what it runs on, the GPUs, its options, and whether a
// dist_sync_mpi store can be created: alone, or under mpirun with all processes. Then the sizes and
// policies that the store uses, and the memory that it takes. For people, or as JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

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

/// A job of any size, which need not be this one.
struct Job {
  int ranks = 0;  ///< on each node; 0: none asked for
  int nodes = 1;
  std::vector<int> sizes() const {
    return ranks > 0 ? std::vector{ranks} : std::vector{1, 2, 4, 8, 64};
  }
};

/// The program prints these.
struct Findings {
  tutti::Options options;
  std::unique_ptr<tutti::KVStore> store;
  std::optional<tutti::Error> trouble;  ///< why there is no store
};

void print_memory(const Findings& found, const Job& job) {
  fmt::print("\nMemory of a rank (further: 1.25 KiB a key in flight, and what `allocate` gives)\n");
  if (found.store) {
    fmt::print("  {:<30} {:.2f} MiB\n", "this store's buffers",
               mib(found.store->counters().buffer_bytes));
  }
  for (const int ranks : job.sizes()) {
    const std::string label = fmt::format("{} node{} of {} rank{}", job.nodes,
                                          job.nodes > 1 ? "s" : "", ranks, ranks > 1 ? "s" : "");
    const std::uint64_t bytes = tutti::most_buffer_bytes(found.options, ranks, job.nodes);
    fmt::print("  {:<30} at most {:.2f} MiB, {:.1f} MiB a node\n", label, mib(bytes),
               mib(bytes * static_cast<std::uint64_t>(ranks)));
  }
}

void print_all(const Findings& found, const Job& job) {
  print_facts("Build, libraries and machine", tutti::build_info());
  print_facts("\nGPUs", tutti::gpu_info());
  print_options(found.options);
  fmt::print("\nStore dist_sync_mpi\n");
  if (found.store) {
    fmt::print("  {:<30} {}\n  {:<30} {}\n", "processes", found.store->num_workers(), "nodes",
               found.store->counters().nodes);
    print_choices(*found.store);
  } else {
    fmt::print("  does not come up: {}\n", found.trouble->what());
  }
  print_memory(found, job);
}

nlohmann::ordered_json json_of(const std::vector<tutti::Fact>& facts) {
  auto json = nlohmann::ordered_json::object();
  for (const tutti::Fact& fact : facts) json[fact.name] = fact.value;
  return json;
}

nlohmann::ordered_json json_of(const tutti::KVStore& store) {
  auto choices = nlohmann::ordered_json::array();
  for (const tutti::Choice& choice : store.choices()) {
    choices.push_back({{"name", choice.name}, {"value", choice.value}, {"origin", choice.origin}});
  }
  const tutti::Counters counters = store.counters();
  return {{"processes", store.num_workers()},
          {"nodes", counters.nodes},
          {"buffer_bytes", counters.buffer_bytes},
          {"choices", std::move(choices)}};
}

/// Prints one object. The Python package's tutti-info prints the same members.
void print_json(const Findings& found, const Job& job) {
  auto memory = nlohmann::ordered_json::array();
  for (const int ranks : job.sizes()) {
    memory.push_back(
        {{"ranks_per_node", ranks},
         {"nodes", job.nodes},
         {"most_bytes_a_rank", tutti::most_buffer_bytes(found.options, ranks, job.nodes)}});
  }
  const nlohmann::ordered_json all{
      {"build", json_of(tutti::build_info())},
      {"gpus", json_of(tutti::gpu_info())},
      {"options", json_of(tutti::describe(found.options))},
      {"store", found.store ? json_of(*found.store)
                            : nlohmann::ordered_json{{"trouble", found.trouble->what()}}},
      {"memory", std::move(memory)}};
  fmt::print("{}\n", all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

/// The store is created before anything is printed, because it knows the rank and MPI's thread
/// level.
int inform(const Job& job, bool as_json) {
  Findings found{.options = tutti::Options::from_env(), .store = nullptr, .trouble = std::nullopt};
  try {
    found.store = tutti::KVStore::create("dist_sync_mpi", found.options);
    if (found.store->rank() != 0) return 0;
  } catch (const tutti::Error& error) {
    found.trouble = error;
  }
  as_json ? print_json(found, job) : print_all(found, job);
  return found.trouble && found.trouble->code() != tutti::ErrorCode::unsupported ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Prints how this tutti was built, the GPUs, its options, whether it can create a "
      "dist_sync_mpi store, the sizes and limits of that store and where they come from, and the "
      "memory that the store takes.\nStart it alone, or with mpirun: mpirun -n N tutti-info");
  Job job;
  app.add_option("--ranks", job.ranks,
                 "print the memory for a job with this many ranks on each node")
      ->check(command_line::between(1, 1 << 16));
  app.add_option("--nodes", job.nodes, "and with this many nodes")
      ->check(command_line::between(1, 1 << 16))
      ->capture_default_str();
  bool as_json = false;
  app.add_flag("--json", as_json, "print one JSON object instead of text");
  if (const auto status = command_line::parse_or_status(app, argc, argv)) return *status;
  try {
    return inform(job, as_json);
  } catch (const tutti::Error& error) {
    return command_line::complain("tutti-info", error, error.what());
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti-info: {}\n", error.what());
    return 1;
  }
}
