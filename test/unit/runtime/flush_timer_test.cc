#include "runtime/flush_timer.h"

#include <catch2/catch.hpp>

using namespace tutti::runtime;
using namespace std::chrono_literals;

namespace {

const FlushTimer::Time start{1000s};

/// Calls MPI whenever it is time, until then; how often.
int flush_until(FlushTimer& flush_timer, FlushTimer::Time end) {
  int flushes = 0;
  for (; flush_timer.next() < end; ++flushes) flush_timer.note_flushed(flush_timer.next());
  return flushes;
}

}  // namespace

TEST_CASE("a rank that has sent nothing and does not leave never calls MPI for what it may hold") {
  CHECK(FlushTimer().next() == FlushTimer::Time::max());
}

TEST_CASE("after a send MPI is called ever less often, and at last no more") {
  FlushTimer flush_timer;
  flush_timer.note_sent(start);
  CHECK(flush_timer.next() == start + 50us);
  CHECK(flush_until(flush_timer, start + 1s) > 50);
  const auto before = flush_timer.next();
  flush_timer.note_flushed(before);
  CHECK(flush_timer.next() == before + 100ms);
  flush_until(flush_timer, start + 1h);
  CHECK(flush_timer.next() == FlushTimer::Time::max());
}

TEST_CASE(
    "a rank that leaves calls MPI every 100 ms until it is let go, however long ago it sent") {
  FlushTimer flush_timer;
  flush_timer.note_sent(start);
  SECTION("having asked soon after it sent") {
    flush_timer.note_leaving(start + 1ms);
  }
  SECTION("having asked when it had stopped") {
    flush_until(flush_timer, start + 50s);
    flush_timer.note_leaving(start + 50s);
    CHECK(flush_timer.next() == start + 50s);
  }
  flush_until(flush_timer, start + 1h);
  CHECK(flush_until(flush_timer, start + 1h + 10s) == 100);
}

TEST_CASE("a rank that leaves and has something sent after all does not wait for it") {
  FlushTimer flush_timer;
  flush_timer.note_leaving(start);
  flush_timer.note_flushed(start);
  flush_timer.note_sent(start + 1ms);
  CHECK(flush_timer.next() == start + 1ms + 50us);
}
