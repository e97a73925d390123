#include "runtime/waiter.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <thread>

using namespace tutti;
using namespace tutti::runtime;
using namespace std::chrono_literals;
using base::Clock;

namespace {

double cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

}  // namespace

TEST_CASE("waiting for a bell nobody rings costs next to no processor time") {
  base::Doorbell bell;
  for (const bool crowded : {false, true}) {
    Waiter waiter(bell, crowded);
    const double before = cpu_seconds();
    const auto end = Clock::now() + 300ms;
    while (Clock::now() < end) waiter.wait(bell.ticket(), Waiter::For::doorbell, end);
    CHECK(cpu_seconds() - before < 0.01);
  }
}

TEST_CASE("a late gate is looked at ever less often, at least every 40 ms") {
  base::Doorbell bell;
  Waiter waiter(bell, true);
  const double before = cpu_seconds();
  const auto start = Clock::now();
  Clock::duration longest{};
  for (auto last = start; last < start + 500ms;) {
    waiter.wait(bell.ticket(), Waiter::For::gate, Clock::now() + 1h);
    const auto now = Clock::now();
    longest = std::max(longest, now - last);
    last = now;
  }
  CHECK(cpu_seconds() - before < 0.05);
  CHECK(longest < 150ms);
}

TEST_CASE("a ring ends the wait") {
  base::Doorbell bell;
  Waiter waiter(bell, true);
  const auto ticket = bell.ticket();
  std::thread ringer([&] { bell.ring(); });
  while (bell.ticket() == ticket) waiter.wait(ticket, Waiter::For::doorbell, Clock::now() + 10s);
  ringer.join();
}

TEST_CASE("where transfers have been slow, the next one is slept for from the start") {
  base::Doorbell bell;
  const auto looks_at_transfer = [&](Waiter& waiter) {
    int looks = 0;
    for (const auto start = Clock::now(); Clock::now() < start + 5ms; ++looks) {
      waiter.wait(bell.ticket(), Waiter::For::transfer, Clock::now() + 1h);
    }
    waiter.reset();
    return looks;
  };
  // The first is spun for, unless somebody else has the processor.
  int most = 0;
  for (const auto start = Clock::now(); most <= 20 && Clock::now() < start + 10s;) {
    Waiter fresh(bell, false);
    most = std::max(most, looks_at_transfer(fresh));
  }
  CHECK(most > 20);
  Waiter waiter(bell, false);
  for (int i = 0; i < 20; ++i) looks_at_transfer(waiter);
  CHECK(looks_at_transfer(waiter) < 10);
}
