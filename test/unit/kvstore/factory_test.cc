// What a program is told that asks for a store of one process.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "../base/stderr_of.h"
#include "tutti/kvstore.h"

using namespace tutti;
using Catch::Contains;

namespace {

/// What is logged for a store of that type in a process that mpirun started, or did not.
std::string told(const char* type, const char* rank, const char* size,
                 const Options& options = {}) {
  if (rank != nullptr) ::setenv("OMPI_COMM_WORLD_RANK", rank, 1);
  if (size != nullptr) ::setenv("OMPI_COMM_WORLD_SIZE", size, 1);
  const std::string log = stderr_of([&] { KVStore::create(type, options); });
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  return log;
}

}  // namespace

TEST_CASE("processes of one job that do not exchange anything are told so by one of them") {
  for (const char* const type : {"local", "device"}) {
    const std::string log = told(type, "0", "2");
    CHECK(lines_of(log).size() == 1);
    CHECK_THAT(log,
               Contains("this job has 2 processes") && Contains(type) && Contains("dist_sync_mpi"));
    CHECK(told(type, "1", "2").empty());
    CHECK(told(type, "0", "1").empty());
    CHECK(told(type, nullptr, nullptr).empty());
  }
}

TEST_CASE("a store that records no timeline says so when one is asked for") {
  Options options;
  options.timeline = "trace.json";
  const std::string log = told("device", nullptr, nullptr, options);
  CHECK(lines_of(log).size() == 1);
  CHECK_THAT(log, Contains("'device' records no timeline") && Contains("'trace.json'"));
}
