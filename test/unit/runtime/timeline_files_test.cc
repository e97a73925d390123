#include "runtime/timeline_files.h"

#include <catch2/catch.hpp>

using tutti::runtime::timeline_path;

TEST_CASE("the first store of a process writes to the path, later ones add their number") {
  CHECK(timeline_path("out/trace.json", 0) == "out/trace.json");
  CHECK(timeline_path("out/trace.json", 1) == "out/trace.2.json");
  CHECK(timeline_path("trace", 2) == "trace.3");
}
