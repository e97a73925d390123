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

TEST_CASE("waiting for a bell that nobody rings costs next to no processor time") {
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
  Clock::time_point now{};
  Clock::duration longest{};
  int looks = 0;
  for (const auto end = now + 5s; now < end; ++looks) {
    if (waiter.next(Waiter::For::gate, now) != Waiter::Step::sleep) {
      now += 10us;
      continue;
    }
    const Clock::duration sleep = waiter.next_sleep(Waiter::For::gate);
    CHECK(sleep >= longest);
    longest = sleep;
    now += sleep;
  }
  CHECK(longest == 40ms);
  CHECK(looks < 500);
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
  Clock::time_point now{};
  // Each look at a transfer that takes 5 ms costs 10 us.
  const auto yields_in_transfer = [&](Waiter& waiter) {
    int yields = 0;
    for (const auto end = now + 5ms; now < end; now += 10us) {
      if (waiter.next(Waiter::For::transfer, now) == Waiter::Step::yield) {
        ++yields;
      } else {
        now += waiter.next_sleep(Waiter::For::transfer);
      }
    }
    waiter.reset(now);
    return yields;
  };
  Waiter waiter(bell, false);
  CHECK(yields_in_transfer(waiter) >= 10);
  for (int i = 0; i < 20; ++i) yields_in_transfer(waiter);
  CHECK(yields_in_transfer(waiter) == 0);
  // Quick ones are awaited with yields again.
  for (int i = 0; i < 20; ++i) {
    waiter.next(Waiter::For::transfer, now);
    waiter.reset(now += 20us);
  }
  CHECK(yields_in_transfer(waiter) >= 10);
}
