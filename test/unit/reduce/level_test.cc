#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "reference.h"

using namespace reference;

TEST_CASE("the SIMD level is the one that runs, each has its own name") {
  const std::string best(tutti::reduce::simd_level());
  std::set<std::string> levels;
  at_every_level([&] { levels.emplace(tutti::reduce::simd_level()); });
  CHECK(levels.size() == hwy::SupportedAndGeneratedTargets().size());
  CHECK(levels.count(best) == 1);
  CHECK(tutti::reduce::simd_level() == best);
  for (const std::string& level : levels) {
    UNSCOPED_INFO(level);
  }
  CHECK(levels.count("Unknown") == 0);
}
