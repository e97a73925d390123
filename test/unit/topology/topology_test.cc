#include "topology/topology.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tutti/error.h"

using namespace tutti::topology;
using Ranks = std::vector<int>;
using Sizes = std::vector<std::size_t>;

TEST_CASE("a world on one node is led by rank 0 and has a lane for each rank") {
  const Topology t = make_topology(2, Ranks{0, 0, 0});
  CHECK(t.rank == 2);
  CHECK(t.size == 3);
  CHECK(t.nodes == std::vector<Ranks>{{0, 1, 2}});
  CHECK(t.local_index() == 2);
  CHECK(t.local_size() == 3);
  CHECK(t.node_count() == 1);
  CHECK_FALSE(t.is_leader());
  CHECK(t.lanes() == 3);
  CHECK(t.kin(1) == Ranks{1});
}

TEST_CASE("ranks dealt to nodes in turn keep ascending order inside each node") {
  const Topology t = make_topology(3, Ranks{0, 1, 0, 1, 0});
  CHECK(t.nodes == std::vector<Ranks>{{0, 2, 4}, {1, 3}});
  CHECK(t.node_of == Ranks{0, 1, 0, 1, 0});
  CHECK(t.local_index_of == Ranks{0, 0, 1, 1, 2});
  CHECK(t.node() == 1);
  CHECK(t.local_ranks() == Ranks{1, 3});
  CHECK(t.leader(0) == 0);
  CHECK(t.leader(1) == 1);
}

TEST_CASE("nodes are ordered by their lowest rank, whatever the order of the rest") {
  const Topology t = make_topology(2, Ranks{0, 1, 2, 2, 1, 0, 2});
  CHECK(t.nodes == std::vector<Ranks>{{0, 5}, {1, 4}, {2, 3, 6}});
  CHECK(t.is_leader());
}

TEST_CASE("the smallest node bounds the lanes, and kin are one rank a node") {
  const Topology t = make_topology(0, Ranks{0, 0, 0, 3, 3, 5, 5, 5});
  CHECK(t.lanes() == 2);
  CHECK(t.kin(0) == Ranks{0, 3, 5});
  CHECK(t.kin(1) == Ranks{1, 4, 6});
}

TEST_CASE("a topology nobody filled is a world of one") {
  CHECK(Topology{} == make_topology(0, Ranks{0}));
}

TEST_CASE("leaders that cannot be are refused as an internal error that names the rank") {
  const std::vector<Ranks> impossible = {
      {0, 2, 2},   // a leader above one of its ranks
      {0, 0, 1},   // a leader that follows another
      {0, -1, 0},  // no rank
      {0, 7, 0},  {1, 1, 1},
  };
  for (const Ranks& leaders : impossible) {
    try {
      make_topology(0, leaders);
      FAIL("accepted");
    } catch (const tutti::Error& e) {
      CHECK(e.code() == tutti::ErrorCode::internal);
      CHECK_THAT(e.what(), Catch::Contains("rank"));
    }
  }
  CHECK_THROWS_AS(make_topology(3, Ranks{0, 0, 0}), tutti::Error);
  CHECK_THROWS_AS(make_topology(-1, Ranks{0}), tutti::Error);
  CHECK_THROWS_AS(make_topology(0, Ranks{}), tutti::Error);
}

TEST_CASE(
    "shards cover every element once, differ by less than two granules and start on granules") {
  for (const std::size_t count : Sizes{0, 1, 7, 15, 16, 17, 63, 64, 65, 1000, 4096, 99'991}) {
    for (const int parts : {1, 2, 3, 5, 8, 17}) {
      for (const std::size_t granule : Sizes{1, 3, 16, 64}) {
        CAPTURE(count, parts, granule);
        std::size_t expected = 0;
        for (int i = 0; i < parts; ++i) {
          const Range part = shard(count, parts, i, granule);
          REQUIRE(part.begin == expected);
          REQUIRE(part.begin <= part.end);
          REQUIRE((part.begin % granule == 0 || part.begin == count));
          REQUIRE(part.size() + 2 * granule > shard(count, parts, 0, granule).size());
          REQUIRE(part.size() <= shard(count, parts, 0, granule).size());
          expected = part.end;
        }
        REQUIRE(expected == count);
      }
    }
  }
}

TEST_CASE("the last shard is the one with a partial granule") {
  CHECK(shard(100, 3, 0, 16) == Range{0, 48});
  CHECK(shard(100, 3, 2, 16) == Range{80, 100});
  CHECK(shard(5, 3, 0, 16) == Range{0, 5});
  CHECK(shard(5, 3, 2, 16).empty());
}

TEST_CASE("a shard of the largest count does not overflow") {
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  CHECK(shard(most, 1000, 0, 64).size() > most / 1001);
  CHECK(shard(most, 1000, 999, 64).end == most);
  CHECK(shard(most, 1000, 998, 64).end == shard(most, 1000, 999, 64).begin);
}

TEST_CASE("the canonical tree splits at the largest power of two below n") {
  const Ranks left = {1, 2, 2, 4, 4, 4, 4, 8};
  for (int n = 2; n <= 9; ++n) {
    CHECK(tree_split(n) == left[static_cast<std::size_t>(n - 2)]);
  }
  CHECK(tree_split(1024) == 512);
  CHECK(tree_split(1025) == 1024);
}

TEST_CASE("uneven nodes that hold branches of the tree over ranks are joined in that tree") {
  using Joins = std::vector<Join>;
  // (0 1) | 2 3: the tree over nodes would add rank 3's to the sum of the other three.
  CHECK(joins_of_uneven_nodes(make_topology(0, Ranks{0, 0, 2, 3})) == Joins{{1, 2}, {0, 1}});
  // (0 1 2 3) | (4 5) 6
  CHECK(joins_of_uneven_nodes(make_topology(0, Ranks{0, 0, 0, 0, 4, 4, 6})) ==
        Joins{{1, 2}, {0, 1}});
}

TEST_CASE("nodes are joined in the tree over nodes where it is the same, or a node is no branch") {
  const std::vector<Ranks> placements = {
      {0},          {0, 0, 0},    {0, 1, 2, 3, 4}, {0, 0, 2, 2, 4, 4}, {0, 0, 2},
      {0, 0, 0, 3}, {0, 1, 1, 3}, {0, 1, 0, 1},    {0, 1, 0, 3},       {0, 1, 2, 2},
  };
  for (const Ranks& leaders : placements) {
    CAPTURE(leaders);
    CHECK(joins_of_uneven_nodes(make_topology(0, leaders)).empty());
  }
}
