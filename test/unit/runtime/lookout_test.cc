#include "runtime/lookout.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

#include "../errors.h"
#include "tutti/error.h"

using namespace tutti;
using namespace std::chrono_literals;
using control::FailedRank;
using runtime::Lookout;

TEST_CASE("if a rank reports a loss and then ends itself, the rank that it reported is lost") {
  Lookout lookout;
  lookout.report_to([](const FailedRank&) {});
  lookout.watch([] { return FailedRank{1, "its process ended"}; });
  lookout.listen([] { return FailedRank{2, "its process ended"}; });
  CHECK_THAT(text_of(ErrorCode::peer_lost, [&] { lookout.look(); }),
             Catch::StartsWith("rank 2 is lost"));
}

TEST_CASE(
    "a rank that ends after it has given up the store is lost to those that no word of that "
    "reaches") {
  base::Clock::time_point now{};
  Lookout lookout([&] { return now; });
  std::vector<int> reported;
  lookout.report_to([&](const FailedRank& lost) { reported.push_back(lost.rank); });
  lookout.watch([] { return FailedRank{1, "its process ended"}; });
  lookout.excuse([](int rank) { return rank == 1; });
  lookout.look();
  now += 1999ms;
  lookout.look();
  CHECK(reported.empty());
  now += 1ms;
  CHECK_THAT(text_of(ErrorCode::peer_lost, [&] { lookout.look(); }),
             Catch::StartsWith("rank 1 is lost"));
  CHECK(reported == std::vector<int>{1});
}

TEST_CASE("a rank that ends without having given up the store is lost at once") {
  Lookout lookout;
  lookout.report_to([](const FailedRank&) {});
  lookout.watch([] { return FailedRank{2, "its process ended"}; });
  lookout.excuse([](int rank) { return rank == 1; });
  CHECK_THROWS_AS(lookout.look(), Error);
}

TEST_CASE(
    "a rank tells others of a loss that it has seen, and not of one of which others told it") {
  std::vector<int> told;
  bool heard = false;
  Lookout seeing;
  seeing.report_to([](const FailedRank&) {});
  seeing.watch([] { return FailedRank{1, "its process ended"}; });
  seeing.tell([&](const FailedRank& lost) { told.push_back(lost.rank); });
  seeing.listen([&]() -> std::optional<FailedRank> {
    if (heard) return FailedRank{2, "its process ended"};
    return std::nullopt;
  });
  Lookout hearing = seeing;
  CHECK_THROWS_AS(seeing.look(), Error);
  CHECK(told == std::vector<int>{1});
  heard = true;
  CHECK_THROWS_AS(hearing.look(), Error);
  CHECK(told == std::vector<int>{1});
}
