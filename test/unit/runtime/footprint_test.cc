#include "runtime/footprint.h"

#include <catch2/catch.hpp>

using tutti::runtime::arena_bytes;

namespace {

constexpr std::size_t tib = std::size_t{1} << 40;

}  // namespace

TEST_CASE("a process finds addresses for a store over all ranks and sixteen over some") {
  constexpr std::size_t addresses = 128 * tib;
  for (const std::size_t machine : {tib / 64, tib, 4 * tib, 24 * tib}) {
    for (const int ranks : {1, 2, 8, 64, 192}) {
      const auto each = static_cast<std::size_t>(ranks);
      const std::size_t all = each * arena_bytes(machine, ranks, false);
      const std::size_t groups = 16 * each * arena_bytes(machine, ranks, true);
      CHECK(all + groups <= addresses * 3 / 4);
    }
  }
}

TEST_CASE("a rank's arena has twice the machine's memory where there is room") {
  constexpr std::size_t gib = tib >> 10;
  CHECK(arena_bytes(16 * gib, 8, false) == 32 * gib);
  CHECK(arena_bytes(16 * gib, 8, true) == 32 * gib);
  CHECK(arena_bytes(2 * tib, 8, false) == 4 * tib);
  CHECK(arena_bytes(2 * tib, 8, true) == tib / 2);
}
