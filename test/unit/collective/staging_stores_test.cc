// How staging memory is written, on machines of which only the pace of copies is known.
#include "collective/staging_stores.h"

#include <catch2/catch.hpp>
#include <thread>

using tutti::collective::StagingStores;
using namespace std::chrono_literals;

namespace {

struct CopyCosts {
  StagingStores::Duration into_caches;
  StagingStores::Duration around_caches;
};

constexpr CopyCosts one_cache{25us, 20us};
constexpr CopyCosts no_common_cache{130us, 16us};

constexpr std::size_t bytes = std::size_t{256} << 10;
constexpr int enough = 2'000;

StagingStores fresh() {
  StagingStores stores({});
  stores.next_batch(bytes);
  return stores;
}

/// Makes this many copies there. Returns how many of them went around the caches.
int copy(StagingStores& stores, const CopyCosts& machine, int copies) {
  int around = 0;
  for (int i = 0; i < copies; ++i) {
    const bool way = stores.choose_next();
    stores.note_time(way, bytes, way ? machine.around_caches : machine.into_caches);
    around += way ? 1 : 0;
  }
  return around;
}

/// Whether most of the next copies go around the caches.
bool goes_around(StagingStores& stores, const CopyCosts& machine) {
  return copy(stores, machine, 10) > 5;
}

}  // namespace

TEST_CASE("staging is written into a cache that ranks share") {
  StagingStores stores = fresh();
  copy(stores, one_cache, enough);
  CHECK_FALSE(goes_around(stores, one_cache));
}

TEST_CASE("staging is written around caches that ranks do not share") {
  StagingStores stores = fresh();
  copy(stores, no_common_cache, 6);
  CHECK(goes_around(stores, no_common_cache));
}

TEST_CASE("staging follows processors that move") {
  StagingStores stores = fresh();
  for (int moves = 0; moves < 3; ++moves) {
    copy(stores, one_cache, enough);
    CHECK_FALSE(goes_around(stores, one_cache));
    copy(stores, no_common_cache, enough);
    CHECK(goes_around(stores, no_common_cache));
  }
}

TEST_CASE("if copies to staging slow down, the next ones are written the other way") {
  StagingStores stores = fresh();
  copy(stores, one_cache, 100);
  copy(stores, no_common_cache, 3);
  CHECK(goes_around(stores, no_common_cache));
}

TEST_CASE("a copy that is interrupted does not change how staging is written") {
  StagingStores stores = fresh();
  copy(stores, one_cache, 100);
  stores.note_time(false, bytes, 4ms);
  stores.note_time(false, bytes, 3ms);
  CHECK_FALSE(goes_around(stores, one_cache));
}

TEST_CASE("where both ways take about as long, the one in use stays") {
  constexpr CopyCosts between{40us, 20us};
  StagingStores into = fresh();
  copy(into, one_cache, enough);
  copy(into, between, enough);
  CHECK_FALSE(goes_around(into, between));
  StagingStores around = fresh();
  copy(around, no_common_cache, enough);
  copy(around, between, enough);
  CHECK(goes_around(around, between));
}

TEST_CASE("the slower way is tried in less than one of a hundred copies") {
  StagingStores into = fresh();
  copy(into, one_cache, enough);
  const int tried = copy(into, one_cache, 10'000);
  CHECK(tried > 0);
  CHECK(tried < 100);
}

TEST_CASE(
    "copies are timed as they are made, and a copy that is not timed goes the way of the last") {
  StagingStores stores = fresh();
  for (int i = 0; i < 10; ++i) {
    stores.write(bytes, [&](bool around) {
      CHECK(stores.is_around() == around);
      if (!around) std::this_thread::sleep_for(2ms);
    });
  }
  CHECK(stores.is_around());
}

TEST_CASE("short copies, and those of many small parts, go into the caches") {
  constexpr StagingStores::Pacing pacing;
  StagingStores stores(pacing);
  const auto goes_around = [&](std::size_t size, std::size_t bytes_a_part) {
    bool way = true;
    stores.next_batch(bytes_a_part);
    stores.write(size, [&](bool around) { way = around; });
    CHECK(stores.is_around() == way);
    return way;
  };
  CHECK_FALSE(goes_around(pacing.least_bytes - 1, bytes));
  CHECK_FALSE(goes_around(bytes, pacing.least_bytes - 1));
  CHECK(goes_around(pacing.least_bytes, pacing.least_bytes));  // the first copies are a trial
}
