#include "ps/scheduler/directory.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "unit/errors.h"

using namespace tutti;
using namespace tutti::ps;

namespace {

/// The server of each piece.
std::vector<int> servers_of(const Placement& placement) {
  std::vector<int> servers;
  for (std::uint32_t piece = 0; piece < placement.places.pieces; ++piece) {
    servers.push_back(placement.places.server_of(piece));
  }
  return servers;
}

std::vector<int> servers_of(Directory& directory, const Key& key, std::uint64_t count) {
  Locate asked;
  asked.values.push_back({key, count, DType::f32});
  return servers_of(directory.locate(asked).placements.at(0));
}

}  // namespace

TEST_CASE("a small value is on one server, a large one in equal pieces on all") {
  Directory directory(3, 1000);
  CHECK(servers_of(directory, "small", 999).size() == 1);
  const auto large = servers_of(directory, "large", 1000);
  CHECK(std::set<int>(large.begin(), large.end()) == std::set<int>{0, 1, 2});
}

TEST_CASE("the place of a key does not change, whichever worker asks and with whatever size") {
  Directory directory(2, 1000);
  const auto first = servers_of(directory, "w", 10);
  servers_of(directory, "v", 500);
  CHECK(servers_of(directory, "w", 5000) == first);
}

TEST_CASE("a piece that would not fit a message is cut, on one server too") {
  Directory directory(1, std::uint64_t{1} << 40);
  CHECK(servers_of(directory, "w", (largest_piece / 4) + 1).size() == 2);
  Directory two(2, 1000);
  CHECK(servers_of(two, "w", largest_piece / 4 * 5).size() == 6);
}

TEST_CASE("a value that must be whole is in one piece") {
  Directory directory(3, 1000);
  Locate asked{{{"w", largest_piece, DType::f32, true}, {"v", 10, DType::f32, false}}};
  const Located located = directory.locate(asked);
  REQUIRE(servers_of(located.placements[0]).size() == 1);
  CHECK(servers_of(located.placements[1]) != servers_of(located.placements[0]));
}

TEST_CASE("a value below the bound is on one server, whatever its pieces") {
  Directory directory(3, std::uint64_t{1} << 40);
  const auto servers = servers_of(directory, "w", largest_piece);
  CHECK(servers.size() == 4);
  CHECK(std::set<int>(servers.begin(), servers.end()).size() == 1);
}

TEST_CASE("keys that are asked for together fill the servers evenly") {
  // Layers as convolutional networks have them: many small ones and few large ones.
  Locate asked;
  for (int i = 0; i < 50; ++i) {
    const std::uint64_t side = 16ULL << (i / 10);
    asked.values.push_back({i, side * side * 9, DType::f32});
    asked.values.push_back({100 + i, side, DType::f32});
  }
  Directory directory(4, 1'000'000);
  const Located located = directory.locate(asked);
  std::vector<double> bytes(4);
  for (std::size_t i = 0; i < asked.values.size(); ++i) {
    const auto servers = servers_of(located.placements[i]);
    CHECK(located.placements[i].key == asked.values[i].key);
    for (const int server : servers) {
      bytes[static_cast<std::size_t>(server)] +=
          4.0 * static_cast<double>(asked.values[i].count) / static_cast<double>(servers.size());
    }
  }
  const double even = std::accumulate(bytes.begin(), bytes.end(), 0.0) / 4;
  for (const double held : bytes) CHECK(std::abs(held - even) < 0.05 * even);
}

TEST_CASE("a size that no value has is refused") {
  Directory directory(2, 1000);
  text_of(ErrorCode::internal, [&] { servers_of(directory, "w", std::uint64_t{1} << 60); });
}

TEST_CASE("the places of many pieces take as much room as those of few") {
  Directory directory(3, 1000);
  const Located located = directory.locate({{{"w", std::uint64_t{1} << 39, DType::f32}}});
  const Places& places = located.placements.at(0).places;
  CHECK(places.servers == std::vector<int>{0, 1, 2});
  CHECK(places.pieces / 3 * largest_piece >= (std::uint64_t{1} << 41) / 3);
}

TEST_CASE("a value that is split begins on the server with the fewest bytes") {
  Directory directory(3, 1000);
  servers_of(directory, "small", 999);
  const Located located = directory.locate({{{"large", 1000, DType::f32}}});
  CHECK(located.placements.at(0).places == Places{{1, 2, 0}, 3});
}

TEST_CASE("values that together are above 4 TiB are refused") {
  Directory directory(2, 1000);
  for (const char* key : {"a", "b"}) servers_of(directory, key, std::uint64_t{1} << 39);
  const std::string text = text_of(ErrorCode::internal, [&] { servers_of(directory, "c", 1000); });
  CHECK_THAT(text, Catch::Contains("key 'c'"));
  CHECK(servers_of(directory, "a", 1).size() > 1);
}

TEST_CASE("a key that is asked for twice at once is refused") {
  Directory directory(2, 1000);
  text_of(ErrorCode::internal, [&] {
    directory.locate({{{"w", 12, DType::f32}, {"w", 12, DType::f32}}});
  });
}

TEST_CASE("keys without end are refused, and those there are stay") {
  Directory directory(2, 1000);
  for (std::size_t i = 0; i < most_keys; ++i) {
    servers_of(directory, static_cast<std::int64_t>(i), 1);
  }
  CHECK_THROWS_AS(servers_of(directory, "one more", 1), Error);
  CHECK(servers_of(directory, 0, 1).size() == 1);
}
