// How staging memory is written, on machines of which only the pace of copies is known.
#include "collective/staging_stores.h"

#include <catch2/catch.hpp>

using tutti::collective::StagingStores;
using namespace std::chrono_literals;

namespace {

struct Machine {
  StagingStores::Duration into_caches;
  StagingStores::Duration around_caches;
};

constexpr Machine one_cache{25us, 20us};
constexpr Machine no_common_cache{130us, 16us};

constexpr std::size_t bytes = std::size_t{256} << 10;
constexpr int enough = 2'000;

/// Makes so many copies there; how many of them went around the caches.
int copy(StagingStores& stores, const Machine& machine, int copies) {
  int around = 0;
  for (int i = 0; i < copies; ++i) {
    const bool way = stores.next_around();
    stores.took(way, bytes, way ? machine.around_caches : machine.into_caches);
    around += way ? 1 : 0;
  }
  return around;
}

}  // namespace

TEST_CASE("staging is written into a cache that ranks share") {
  StagingStores stores;
  copy(stores, one_cache, enough);
  CHECK_FALSE(stores.around());
}

TEST_CASE("staging is written around caches that ranks do not share") {
  StagingStores stores;
  copy(stores, no_common_cache, 6);
  CHECK(stores.around());
}

TEST_CASE("staging follows processors that move") {
  StagingStores stores;
  for (int moves = 0; moves < 3; ++moves) {
    copy(stores, one_cache, enough);
    CHECK_FALSE(stores.around());
    copy(stores, no_common_cache, enough);
    CHECK(stores.around());
  }
}

TEST_CASE("staging that slows down is written the other way at the next copies") {
  StagingStores stores;
  copy(stores, one_cache, 100);
  copy(stores, no_common_cache, 3);
  CHECK(stores.around());
}

TEST_CASE("a copy that is interrupted does not change how staging is written") {
  StagingStores stores;
  copy(stores, one_cache, 100);
  stores.took(false, bytes, 4ms);
  stores.took(false, bytes, 3ms);
  CHECK_FALSE(stores.around());
}

TEST_CASE("where both ways take about as long, the one in use stays") {
  constexpr Machine between{40us, 20us};
  StagingStores into;
  copy(into, one_cache, enough);
  copy(into, between, enough);
  CHECK_FALSE(into.around());
  StagingStores around;
  copy(around, no_common_cache, enough);
  copy(around, between, enough);
  CHECK(around.around());
}

TEST_CASE("the slower way is tried in less than one of a hundred copies") {
  StagingStores into;
  copy(into, one_cache, enough);
  const int tried = copy(into, one_cache, 10'000);
  CHECK(tried > 0);
  CHECK(tried < 100);
}

TEST_CASE("short copies go into the caches") {
  StagingStores stores;
  bool way = true;
  stores.write(StagingStores::least_bytes - 1, [&](bool around) { way = around; });
  CHECK_FALSE(way);
  stores.write(StagingStores::least_bytes, [&](bool around) { way = around; });
  CHECK(way);  // the first copies are a trial
}
