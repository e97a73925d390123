#include "runtime/lingering.h"

#include <catch2/catch.hpp>

using namespace tutti::runtime;
using namespace std::chrono_literals;

namespace {

const Lingering::Time start{1000s};

/// Calls MPI whenever it is time, until then; how often.
int flush_until(Lingering& lingering, Lingering::Time end) {
  int flushes = 0;
  for (; lingering.next() < end; ++flushes) lingering.flushed(lingering.next());
  return flushes;
}

}  // namespace

TEST_CASE("a rank that has sent nothing and does not leave never calls MPI for what it may hold") {
  CHECK(Lingering().next() == Lingering::Time::max());
}

TEST_CASE("after a send MPI is called ever less often, and at last no more") {
  Lingering lingering;
  lingering.sent(start);
  CHECK(lingering.next() == start + 50us);
  CHECK(flush_until(lingering, start + 1s) > 50);
  const auto before = lingering.next();
  lingering.flushed(before);
  CHECK(lingering.next() == before + 100ms);
  flush_until(lingering, start + 1h);
  CHECK(lingering.next() == Lingering::Time::max());
}

TEST_CASE(
    "a rank that leaves calls MPI every 100 ms until it is let go, however long ago it sent") {
  Lingering lingering;
  lingering.sent(start);
  SECTION("having asked soon after it sent") {
    lingering.leave(start + 1ms);
  }
  SECTION("having asked when it had stopped") {
    flush_until(lingering, start + 50s);
    lingering.leave(start + 50s);
    CHECK(lingering.next() == start + 50s);
  }
  flush_until(lingering, start + 1h);
  CHECK(flush_until(lingering, start + 1h + 10s) == 100);
}

TEST_CASE("a rank that leaves and has something sent after all does not wait for it") {
  Lingering lingering;
  lingering.leave(start);
  lingering.flushed(start);
  lingering.sent(start + 1ms);
  CHECK(lingering.next() == start + 1ms + 50us);
}
