// The places that the scheduler gives for pieces that servers had before the job.
#include <catch2/catch.hpp>
#include <map>

#include "ps/scheduler/directory.h"

using namespace tutti;
using namespace tutti::ps;

TEST_CASE("pieces that servers have already stay there, and take little room where they go round") {
  Directory directory(2, 1000);
  const auto held = [](const Key& key, std::uint32_t index, std::uint32_t pieces, int server) {
    return Directory::HeldBy{{{key, index, pieces}, 10, DType::f32}, server};
  };
  std::vector<Directory::HeldBy> pieces{held("one", 0, 1, 1)};
  for (std::uint32_t i = 0; i < 5; ++i) {
    pieces.push_back(held("round", 4 - i, 5, i % 2 == 0 ? 1 : 0));
    pieces.push_back(held("same", i, 5, 1));
    pieces.push_back(held("otherwise", i, 5, i < 3 ? 0 : 1));
  }
  REQUIRE_FALSE(directory.adopt(pieces));
  std::map<Key, Places> places;
  for (const Placement& one : directory.all().placements) places[one.key] = one.places;
  CHECK(places.at("one") == Places{{1}, 1});
  CHECK(places.at("round") == Places{{1, 0}, 5});
  CHECK(places.at("same") == Places{{1}, 5});
  CHECK(places.at("otherwise") == Places{{0, 0, 0, 1, 1}, 5});
}
