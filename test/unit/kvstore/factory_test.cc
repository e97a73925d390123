// The warnings for a program that asks for a store of one process.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "../base/stderr_of.h"
#include "tutti/kvstore.h"

using namespace tutti;
using Catch::Contains;

namespace {

using Variables = std::vector<std::pair<const char*, const char*>>;

/// The lines that two stores of that type log in a fresh process, which a launcher has started with
/// those variables.
std::string told(const char* type, const Variables& variables, const Options& options = {}) {
  return stderr_of([&] {
    const pid_t child = ::fork();
    if (child == 0) {
      for (const auto& [name, value] : variables) ::setenv(name, value, 1);
      const auto first = KVStore::create(type, options);
      const auto second = KVStore::create(type, options);
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
  });
}

}  // namespace

TEST_CASE("processes of one job that do not exchange anything are told so once, by one of them") {
  using Names = std::pair<const char*, const char*>;
  for (const auto& [size, rank] :
       {Names{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, Names{"PMI_SIZE", "PMI_RANK"},
        Names{"SLURM_NTASKS", "PMIX_RANK"}, Names{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
        Names{"WORLD_SIZE", "RANK"}}) {
    INFO(size);
    for (const char* const type : {"local", "device"}) {
      const std::string log = told(type, {{size, "2"}, {rank, "0"}});
      CHECK(lines_of(log).size() == 1);
      CHECK_THAT(
          log, Contains("this job has 2 processes") && Contains(type) && Contains("dist_sync_mpi"));
      CHECK(told(type, {{size, "2"}, {rank, "1"}}).empty());
      CHECK(told(type, {{size, "1"}, {rank, "0"}}).empty());
    }
  }
}

TEST_CASE("a process that no launcher started is told nothing") {
  CHECK(told("local", {}).empty());
  INFO("what a batch script sees");
  CHECK(told("local", {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}).empty());
}

TEST_CASE("a store that records no timeline says so when one is asked for") {
  Options options;
  options.timeline = "trace.json";
  const std::string log = stderr_of([&] { KVStore::create("device", options); });
  CHECK(lines_of(log).size() == 1);
  CHECK_THAT(log, Contains("'device' records no timeline") && Contains("'trace.json'"));
}
