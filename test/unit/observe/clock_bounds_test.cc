#include "observe/clock_bounds.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace tutti::observe;

namespace {

/// A meeting at `when` of a machine and one whose clock is `behind`. Both come and leave with some
/// delay. The last to come and the first to leave are apart by at least one message.
ClockSample meeting(std::int64_t when, std::int64_t behind, std::mt19937& random) {
  constexpr std::int64_t message = 20'000;
  const auto delay = [&] { return std::uniform_int_distribution<std::int64_t>(0, 50'000)(random); };
  const std::int64_t here = when + delay();
  const std::int64_t there = when + delay();
  const std::int64_t over = std::max(here, there) + message;
  ClockSample result;
  result.reference.add(here, over + delay());
  result.other.add(there - behind, over + delay() - behind);
  return result;
}

}  // namespace

TEST_CASE("a clock's offset is found within the error that is told") {
  std::mt19937 random(7);
  constexpr std::int64_t behind = 123'456'789'000;
  ClockBounds bounds;
  for (std::int64_t i = 0; i < 32; ++i) {
    const ClockSample each = meeting(i * 1'000'000, behind, random);
    bounds.add(each.reference, each.other);
  }
  CHECK_FALSE(bounds.is_contradictory());
  CHECK(std::abs(bounds.offset() - behind) <= bounds.error());
  CHECK(bounds.error() < 60'000);
}

TEST_CASE("the last of a machine's ranks to come and the first to leave count") {
  Passage passage;
  passage.add(10, 90);
  passage.add(30, 70);
  CHECK(passage.came == 30);
  CHECK(passage.left == 70);
}

TEST_CASE("meetings narrow the bounds of a clock that keeps its pace") {
  std::mt19937 random(11);
  std::vector<ClockSample> meetings;
  for (std::int64_t i = 0; i < 400; ++i) meetings.push_back(meeting(i * 1'000'000, 30'000, random));
  const Drift drift(meetings, 1'000'000);
  CHECK(drift.error() < 60'000);
  CHECK(std::abs(drift.first() - 30'000) <= drift.error());
  CHECK(std::abs(drift.at(200'000'000) - 30'000) <= drift.error());
}

TEST_CASE("a clock that drifts is put right from the beginning to the end") {
  std::mt19937 random(13);
  std::vector<ClockSample> meetings;
  constexpr std::int64_t second = 1'000'000'000;
  constexpr double pace = 20e-6;
  for (std::int64_t i = 0; i < 4000; ++i) {
    const std::int64_t when = i * second / 10;
    meetings.push_back(
        meeting(when, static_cast<std::int64_t>(pace * static_cast<double>(when)), random));
  }
  const Drift drift(meetings, 50'000);
  CHECK(drift.error() > 0);
  CHECK(drift.error() < 200'000);
  for (const std::int64_t when : {0 * second, 100 * second, 200 * second, 400 * second}) {
    CHECK(std::abs(drift.at(when) - std::llround(pace * static_cast<double>(when))) <=
          drift.error());
  }
  CHECK(drift.last() > 7'900'000);
}

TEST_CASE("a pace that changes on the way counts as error") {
  std::mt19937 random(17);
  std::vector<ClockSample> meetings;
  constexpr std::int64_t second = 1'000'000'000;
  constexpr std::int64_t one_meeting = 60'000;  // knows no more than this
  // Ahead for the first half, back in the second: up to 1 ms off a straight line.
  const auto behind = [](std::int64_t when) {
    return std::min(when, 100 * second - when) / 50'000;
  };
  for (std::int64_t i = 0; i < 1000; ++i) {
    meetings.push_back(meeting(i * second / 10, behind(i * second / 10), random));
  }
  const Drift drift(meetings, 50'000);
  for (const std::int64_t when : {0 * second, 25 * second, 50 * second, 75 * second}) {
    CHECK(std::abs(drift.at(when) - behind(when)) <= drift.error() + one_meeting);
  }
}

TEST_CASE("earlier bounds count where meetings say less") {
  const Drift drift({{{.came = 0, .left = 900'000}, {.came = 0, .left = 900'000}}}, 5'000);
  CHECK(drift.error() == 5'000);
}

TEST_CASE("few meetings make up no drift") {
  // Two within 30 us of each other, whose middles lie 80 us apart.
  const std::vector<ClockSample> meetings = {
      {{.came = 0, .left = 100'000}, {.came = 0, .left = 20'000}},
      {{.came = 30'000, .left = 50'000}, {.came = 30'000, .left = 130'000}}};
  const Drift drift(meetings, 1'000'000);
  CHECK(drift.first() == drift.last());
  CHECK(drift.at(1'000'000'000) == drift.first());
}

TEST_CASE("without meetings a clock stays as it was set") {
  const Drift drift({}, 5);
  CHECK(drift.at(77) == 0);
  CHECK(drift.error() == 5);
}
