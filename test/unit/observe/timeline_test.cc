#include "observe/timeline.h"

#include <catch2/catch.hpp>

using namespace tutti;

using observe::Stage;
using observe::Timeline;

TEST_CASE("a timeline that is off records nothing and reads no clock") {
  Timeline timeline(0);
  CHECK_FALSE(timeline.is_on());
  CHECK(timeline.now() == base::Clock::time_point());
  timeline.record_submitted(timeline.now(), 1, 0, "w", CollectiveKind::allreduce);
  timeline.record_entered(timeline.now(), 0, 0, 4096);
  timeline.record_part(1);
  timeline.record_stage_begin(0, Stage::sum, 0);
  timeline.record_finished(1, true);
  CHECK(timeline.events().empty());
  CHECK(timeline.rows().empty());
  CHECK(timeline.dropped() == 0);
}

TEST_CASE("a full timeline keeps the first events and counts the others") {
  constexpr std::size_t room = 5;
  Timeline timeline(room);
  for (std::uint64_t i = 0; i < room + 3; ++i) timeline.record_closed(timeline.now(), 1, i);
  REQUIRE(timeline.events().size() == room);
  CHECK(timeline.events().back().number == Timeline::gate(1, room - 1));
  CHECK(timeline.dropped() == 3);
}

TEST_CASE("events are recorded in the order of time") {
  Timeline timeline(100);
  for (std::uint64_t i = 0; i < 20; ++i) {
    timeline.record_entered(timeline.now(), 0, i, 0);
    timeline.record_part(i);
    timeline.record_closed(timeline.now(), 0, i);
    timeline.record_started(0, i, i % 2 == 0);
    timeline.record_done(timeline.now(), 0, i);
  }
  const auto events = timeline.events();
  REQUIRE(events.size() == 100);
  for (std::size_t i = 1; i < events.size(); ++i) CHECK(events[i - 1].when <= events[i].when);
}

TEST_CASE("a row has the name of its calls' key or of barriers, and without calls none") {
  Timeline timeline(10);
  timeline.record_submitted(timeline.now(), 1, 2, "w", CollectiveKind::allreduce);
  timeline.record_submitted(timeline.now(), 2, 0, "b", CollectiveKind::allreduce);
  timeline.record_submitted(timeline.now(), 1, 2, "w", CollectiveKind::allreduce);
  timeline.record_submitted(timeline.now(), 3, 3, "its own", CollectiveKind::barrier);
  CHECK(timeline.rows() == std::vector<std::string>{"'b'", "", "'w'", "barrier"});
  CHECK(timeline.events()[2].detail == 2);
}
