#include "observe/flight_recorder.h"

#include <catch2/catch.hpp>

using tutti::observe::FlightRecorder;

TEST_CASE("a dump lists the events in order with their numbers") {
  FlightRecorder recorder;
  recorder.record(tutti::base::Clock::now(), "entered", 1, 5);
  recorder.record(tutti::base::Clock::now(), "gate closed", 1, 5);
  const std::string dump = recorder.dump();
  CHECK(dump.find("entered 1 5") < dump.find("gate closed 1 5"));
  CHECK(dump.find("gate closed 1 5") != std::string::npos);
}

TEST_CASE("a full recorder forgets the oldest events only") {
  FlightRecorder recorder;
  for (std::uint64_t i = 0; i < FlightRecorder::capacity + 1; ++i)
    recorder.record(tutti::base::Clock::now(), "step", i, 7);
  const std::string dump = recorder.dump();
  CHECK(dump.find("step 0 7") == std::string::npos);
  CHECK(dump.find("step 1 7") != std::string::npos);
  CHECK(dump.find("step 64 7") != std::string::npos);
}

TEST_CASE("a dump of a few events has the last ones") {
  FlightRecorder recorder;
  for (std::uint64_t i = 0; i < 3; ++i) recorder.record(tutti::base::Clock::now(), "step", i, 7);
  const std::string dump = recorder.dump(2);
  CHECK(dump.find("step 0 7") == std::string::npos);
  CHECK(dump.find("step 1 7") < dump.find("step 2 7"));
}
