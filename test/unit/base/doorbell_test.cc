#include "base/doorbell.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
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

namespace {

/// A thread that dozes until the bell wakes it.
class Sleeper {
 public:
  Sleeper(Doorbell& bell, Doorbell::Listener who)
      : thread_([this, &bell, who, ticket = bell.ticket()] {
          id_ = static_cast<int>(::gettid());
          bell.doze(ticket, Clock::now() + 10s, who);
          woken_ = true;
        }) {
    // Awake it would see a ring for itself.
    while (!asleep()) std::this_thread::yield();
  }
  ~Sleeper() { thread_.join(); }
  bool woken() const { return woken_; }

 private:
  bool asleep() const {
    if (id_ == 0) return false;
    std::ifstream file("/proc/self/task/" + std::to_string(id_) + "/stat");
    std::string number;
    std::string name;
    char state = 0;
    return file >> number >> name >> state && state == 'S';
  }

  std::atomic<int> id_{0};
  std::atomic<bool> woken_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("a ring wakes each listener only while it is on duty") {
  Doorbell bell;
  Sleeper owner(bell, Doorbell::owner);
  {
    Sleeper deputy(bell, Doorbell::deputy);
    bell.ring();
    std::this_thread::sleep_for(20ms);
    CHECK_FALSE((owner.woken() || deputy.woken()));
    bell.set_on_duty(Doorbell::deputy);
    bell.ring();
  }
  bell.set_off_duty(Doorbell::deputy);
  CHECK_FALSE(owner.woken());
  bell.set_on_duty(Doorbell::owner);
  bell.ring();
}

TEST_CASE("an owner that waits for no data sleeps while others ring for data, and news wakes it") {
  Doorbell bell;
  const auto ticket = bell.ticket();
  const auto news = bell.news_ticket();
  {
    Sleeper owner(bell, Doorbell::owner);
    bell.set_on_duty(Doorbell::idle_owner);
    bell.ring_for_data();
    std::this_thread::sleep_for(20ms);
    CHECK_FALSE(owner.woken());
    CHECK(bell.news_ticket() == news);
    bell.ring();
  }
  CHECK(bell.news_ticket() != news);
  CHECK(bell.ticket() == ticket + 2);
  bell.set_off_duty(Doorbell::owner);
  Sleeper owner(bell, Doorbell::owner);
  bell.ring();
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(owner.woken());
  bell.set_on_duty(Doorbell::owner);
  bell.ring_for_data();
}
