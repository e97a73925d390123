#include "shm/launch_log.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "../errors.h"

using namespace tutti::shm;
using Kind = LaunchLog::Kind;
using Launch = LaunchLog::Launch;

namespace {

constexpr std::uint64_t largest_chunk = (std::uint64_t{1} << 43) - 1;

/// A node's ring, with its first rank and one that follows.
struct Pair {
  explicit Pair(std::size_t words) : ring(words) {}
  std::vector<LaunchLog::Word> ring;
  LaunchLog first{ring, true};
  LaunchLog second{ring, false};
};

/// The n-th launch of a test: chunks and kinds that differ from their neighbours'.
Launch nth(std::uint64_t n) {
  return {n * 1'000'003 % largest_chunk, n % 3 == 0 ? Kind::scatter : Kind::gather};
}

}  // namespace

TEST_CASE("a rank makes the launches of the node's first rank, in their order") {
  Pair ranks(LaunchLog::words(1));
  CHECK_FALSE(ranks.second.next());
  ranks.first.append({0, Kind::scatter});
  ranks.first.append({largest_chunk, Kind::gather});
  CHECK(ranks.second.next() == Launch{0, Kind::scatter});
  CHECK(ranks.second.next() == Launch{0, Kind::scatter});
  ranks.second.advance();
  CHECK(ranks.second.next() == Launch{largest_chunk, Kind::gather});
  ranks.second.advance();
  CHECK_FALSE(ranks.second.next());
  CHECK(ranks.first.made() == 2);
  CHECK(ranks.second.made() == 2);
}

TEST_CASE("a launch log goes on when its ring and its numbers begin again") {
  Pair ranks(3);
  constexpr std::uint64_t launches = (std::uint64_t{1} << 20) + 10;
  std::uint64_t wrong = 0;
  for (std::uint64_t n = 0; n < launches; ++n) {
    ranks.first.append(nth(n));
    // The second rank is two launches behind, then one.
    if (n % 2 == 0) continue;
    for (const std::uint64_t behind : {n - 1, n}) {
      if (ranks.second.next() != nth(behind)) ++wrong;
      ranks.second.advance();
    }
    if (ranks.second.next()) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(ranks.second.made() == launches);
}

TEST_CASE("a rank that was overrun says so, and by how much") {
  Pair ranks(4);
  for (std::uint64_t n = 0; n < 4; ++n) ranks.first.append(nth(n));
  CHECK(ranks.second.next() == nth(0));
  ranks.first.append(nth(4));
  CHECK(tutti::text_of(tutti::ErrorCode::internal, [&] { ranks.second.next(); }) ==
        "the launch log of this node's ranks holds launch 5 where this rank, not the node's first, "
        "comes to launch 1: the node's first rank is more than 4 launches ahead, or another store "
        "writes there; report this as a fault of tutti");
}

TEST_CASE("an entry of another log is an error for the first rank and for the others") {
  Pair ranks(4);
  const auto strange = [&](std::size_t word) {
    std::vector<LaunchLog::Word> other_ring(4);
    LaunchLog other(other_ring, true);
    for (std::uint64_t n = 0; n < 7; ++n) other.append(nth(n));
    ranks.ring[word] = other_ring[6 % 4].load();
  };
  strange(0);
  CHECK(tutti::text_of(tutti::ErrorCode::internal, [&] { ranks.first.append(nth(0)); })
            .find("holds launch 7 where this rank, the node's first, comes to launch 1: ") !=
        std::string::npos);
  CHECK(tutti::text_of(tutti::ErrorCode::internal, [&] { ranks.second.next(); })
            .find("holds launch 7 where this rank, not the node's first, comes to launch 1: ") !=
        std::string::npos);
}

TEST_CASE("each rank keeps to its part in a launch log") {
  Pair ranks(4);
  const auto broken = [](const auto& call) {
    return tutti::text_of(tutti::ErrorCode::internal, call).find("invariant") != std::string::npos;
  };
  CHECK(broken([&] { ranks.second.append(nth(0)); }));
  CHECK(broken([&] { ranks.second.advance(); }));
  CHECK(broken([&] { ranks.first.advance(); }));
  CHECK(broken([&] { ranks.first.next(); }));
  CHECK(broken([&] { ranks.first.append({largest_chunk + 1, Kind::scatter}); }));
}

TEST_CASE("words that the first rank wrote before a launch are seen with the launch") {
  constexpr std::uint64_t launches = 10'000;
  Pair ranks(16);
  std::vector<std::uint64_t> written(16);
  std::atomic<std::uint64_t> read{0};
  std::thread first([&] {
    for (std::uint64_t n = 0; n < launches; ++n) {
      while (n - read.load(std::memory_order_acquire) >= 8) std::this_thread::yield();
      written[n % 16] = n;
      ranks.first.append(nth(n));
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t n = 0; n < launches; ++n) {
    while (!ranks.second.next()) std::this_thread::yield();
    if (ranks.second.next() != nth(n) || written[n % 16] != n) ++wrong;
    ranks.second.advance();
    read.store(n + 1, std::memory_order_release);
  }
  first.join();
  CHECK(wrong == 0);
}
