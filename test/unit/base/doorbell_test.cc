#include "base/doorbell.h"

#include <catch2/catch.hpp>
#include <thread>

using tutti::base::Clock;
using tutti::base::Doorbell;
using namespace std::chrono_literals;

TEST_CASE("a ring after the ticket is never missed") {
  Doorbell bell;
  const auto ticket = bell.ticket();
  bell.ring();
  CHECK(bell.wait(ticket, Clock::now() + 10s));
}

TEST_CASE("a bell nobody rings times out") {
  Doorbell bell;
  CHECK_FALSE(bell.wait(bell.ticket(), Clock::now() + 2ms));
}

TEST_CASE("two threads hand a turn back and forth without a lost wake-up") {
  Doorbell mine;
  Doorbell yours;
  std::atomic<int> turn{0};
  constexpr int rounds = 2000;
  auto play = [&](Doorbell& own, Doorbell& other, int parity) {
    for (int i = parity; i < rounds; i += 2) {
      for (;;) {
        const auto ticket = own.ticket();
        if (turn.load() == i) break;
        if (!own.wait(ticket, Clock::now() + 10s)) return;
      }
      turn = i + 1;
      other.ring();
    }
  };
  std::thread player([&] { play(yours, mine, 1); });
  play(mine, yours, 0);
  player.join();
  CHECK(turn == rounds);
}
