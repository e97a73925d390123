// Prints what this tutti is and what it runs on, its options, and whether a dist_sync_mpi store
// comes up: alone, or under mpirun with all processes.
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "tutti/info.h"
#include "tutti/tutti.h"

namespace {

void print_build() {
  fmt::print("Build and libraries\n");
  for (const tutti::Fact& fact : tutti::build_info()) {
    fmt::print("  {:<30} {}\n", fact.name, fact.value);
  }
}

void print_options(const tutti::Options& options) {
  fmt::print("\nOptions (* set in the environment)\n");
  for (const tutti::Fact& fact : tutti::describe(options)) {
    const bool set = std::getenv(fact.name.c_str()) != nullptr;
    fmt::print("{} {:<30} {}\n", set ? '*' : ' ', fact.name,
               fact.value.empty() ? "(the system's choice)" : fact.value);
  }
}

/// The store comes up before anything is printed: it tells the rank, and MPI its thread level.
int inform() {
  const tutti::Options options = tutti::Options::from_env();
  std::unique_ptr<tutti::KVStore> store;
  std::optional<tutti::Error> trouble;
  try {
    store = tutti::KVStore::create("dist_sync_mpi", options);
    if (store->rank() != 0) return 0;
  } catch (const tutti::Error& error) {
    trouble = error;
  }
  print_build();
  print_options(options);
  fmt::print("\nStore dist_sync_mpi\n");
  if (trouble) {
    fmt::print("  does not come up: {}\n", trouble->what());
    return trouble->code() == tutti::ErrorCode::unsupported ? 0 : 1;
  }
  fmt::print("  {:<30} {}\n  {:<30} {}\n", "processes", store->num_workers(), "nodes",
             store->counters().nodes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const bool help = std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h";
    fmt::print(help ? stdout : stderr,
               "usage: tutti-info, or mpirun -n N tutti-info\n"
               "Prints what this tutti is built of, its options, and whether a dist_sync_mpi store "
               "comes up.\n");
    return help ? 0 : 2;
  }
  try {
    return inform();
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti-info: {}\n", error.what());
    return 1;
  }
}
