// Prints what this tutti is, what it runs on, and its options. Under mpirun it also says whether
// the processes find each other.
#include <fmt/format.h>

#include <cstdlib>

#include "tutti/info.h"
#include "tutti/tutti.h"

namespace {

void print(const std::vector<tutti::Fact>& facts) {
  for (const tutti::Fact& fact : facts) fmt::print("  {:<30} {}\n", fact.name, fact.value);
}

void print_options(const tutti::Options& options) {
  fmt::print("\nOptions (* set in the environment)\n");
  for (const tutti::Fact& fact : tutti::describe(options)) {
    const bool set = std::getenv(fact.name.c_str()) != nullptr;
    fmt::print("{} {:<30} {}\n", set ? '*' : ' ', fact.name,
               fact.value.empty() ? "(the system's choice)" : fact.value);
  }
}

}  // namespace

int main() {
  fmt::print("Build\n");
  print(tutti::build_info());
  try {
    print_options(tutti::Options::from_env());
  } catch (const tutti::Error& error) {
    fmt::print(stderr, "tutti-info: {}\n", error.what());
    return 1;
  }
  return 0;
}
