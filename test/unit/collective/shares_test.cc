#include "collective/shares.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

using tutti::collective::Shares;
using tutti::topology::Range;

namespace {

std::size_t length_of(const std::vector<std::size_t>& counts, std::size_t n) {
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < n; ++rank) {
    std::size_t sent = 0;
    std::size_t received = 0;
    for (std::size_t other = 0; other < n; ++other) {
      sent += counts[rank * n + other];
      received += counts[other * n + rank];
    }
    most = std::max({most, sent, received});
  }
  return most;
}

}  // namespace

TEST_CASE("the parts of an all_to_all hold every element of every pair once, in order") {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const int ranks = 1 + static_cast<int>(random() % 9);
    const auto n = static_cast<std::size_t>(ranks);
    std::vector<std::size_t> counts(n * n);
    for (std::size_t& count : counts) count = random() % 3 == 0 ? 0 : random() % 500;
    const std::size_t length = length_of(counts, n);
    std::vector<std::size_t> passed(n * n, 0);
    for (std::size_t begin = 0; begin < length;) {
      const std::size_t stretch = std::min(length - begin, 1 + random() % 300);
      const Shares shares{counts, ranks, length, {begin, begin + stretch}};
      const std::size_t half = random() % (stretch + 1);
      for (const Range part : {Range{0, half}, Range{half, stretch}}) {
        for (std::size_t pair = 0; pair < n * n; ++pair) {
          const Range share =
              shares.share(static_cast<int>(pair / n), static_cast<int>(pair % n), part);
          if (counts[pair] == 0) {
            REQUIRE(share.empty());
            continue;
          }
          REQUIRE(share.begin == passed[pair]);
          passed[pair] = share.end;
        }
      }
      begin += stretch;
    }
    REQUIRE(passed == counts);
  }
}

TEST_CASE("no rank sends or receives more of a part than the part's size and an element a rank") {
  std::mt19937_64 random(8);
  for (int trial = 0; trial < 300; ++trial) {
    const int ranks = 2 + static_cast<int>(random() % 8);
    const auto n = static_cast<std::size_t>(ranks);
    std::vector<std::size_t> counts(n * n);
    for (std::size_t& count : counts) count = random() % 3 == 0 ? 0 : random() % 500;
    const std::size_t length = length_of(counts, n);
    const Shares shares{counts, ranks, length, {0, length}};
    for (std::size_t begin = 0; begin + 64 <= length; begin += 64) {
      for (int rank = 0; rank < ranks; ++rank) {
        std::size_t sent = 0;
        std::size_t received = 0;
        for (int other = 0; other < ranks; ++other) {
          sent += shares.share(rank, other, {begin, begin + 64}).size();
          received += shares.share(other, rank, {begin, begin + 64}).size();
        }
        REQUIRE(sent <= 64 + n);
        REQUIRE(received <= 64 + n);
      }
    }
  }
}

TEST_CASE("counts whose products need more than 64 bits are divided without loss") {
  constexpr std::size_t most = std::size_t{1} << 61;
  const std::vector<std::size_t> counts{most, most - 1, 1, 3};
  const Shares shares{counts, 2, 2 * most - 1, {most, 2 * most - 1}};
  CHECK(shares.share(0, 0, {0, most - 1}).end == most);
  CHECK(shares.share(0, 1, {0, most - 1}).end == most - 1);
  CHECK(shares.share(0, 0, {0, 0}).begin == most / 2);
  CHECK(shares.share(1, 0, {0, most - 1}) == Range{0, 1});
}
