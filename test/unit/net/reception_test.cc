#include "net/reception.h"

#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <list>

#include "net/approach.h"
#include "net/sockets.h"
#include "tutti/error.h"

using namespace tutti::net;
using namespace std::chrono_literals;
using Catch::Contains;
using tutti::base::Clock;
using tutti::base::Fd;

namespace {

/// Nothing in these tests takes this long unless it hangs.
constexpr auto patience = 6s;
const Secret secret{};

/// A caller, who speaks when it advances.
Approach caller(const Fd& listener, int rank = 1) {
  std::vector<Way> ways;
  ways.push_back({start_connecting("127.0.0.1", port_of(listener), ""), "127.0.0.1"});
  return {std::move(ways), Identity{rank, secret, "link"}, 0};
}

Reception receptionist(const Fd& listener, bool waits_for_room) {
  return {listener,
          Identity{0, secret, "link"},
          {[](int) { return true; }, std::size_t{0}, waits_for_room}};
}

/// While it lives this process can open nothing.
class NoRoom {
 public:
  NoRoom() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(Fd(::dup(STDERR_FILENO)).get());
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoRoom() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoRoom(const NoRoom&) = delete;
  NoRoom& operator=(const NoRoom&) = delete;

 private:
  rlimit before_{};
};

/// How many prove themselves before the time is over, or all have.
std::size_t proven_of(Reception& reception, std::list<Approach>& callers) {
  std::size_t proven = 0;
  const auto end = Clock::now() + patience;
  while (!callers.empty() && Clock::now() < end) {
    callers.remove_if([](Approach& one) { return one.advance().has_value(); });
    proven += reception.advance().size();
  }
  return proven + reception.advance().size();
}

}  // namespace

TEST_CASE("callers wait while there is no room for them, and are heard when there is") {
  const Fd listener = listen_tcp("127.0.0.1");
  Reception reception = receptionist(listener, true);
  std::list<Approach> callers;
  callers.push_back(caller(listener));
  {
    const NoRoom now;
    CHECK(reception.advance().empty());
    // It sleeps meanwhile.
    REQUIRE(reception.deadline());
    CHECK_FALSE(wait_readable(reception.descriptor(), *reception.deadline() - 10ms));
  }
  CHECK(proven_of(reception, callers) == 1);
}

TEST_CASE("where room is not waited for, its lack is an error") {
  const Fd listener = listen_tcp("127.0.0.1");
  Reception reception = receptionist(listener, false);
  const Approach one = caller(listener);
  const NoRoom now;
  CHECK_THROWS_WITH(reception.advance(), Contains("Too many open files"));
}

TEST_CASE("those who come together among too many strangers do not push each other out") {
  const Fd listener = listen_tcp("127.0.0.1");
  Reception reception = receptionist(listener, true);
  std::list<Approach> strangers;
  for (int i = 0; i < 256; ++i) {
    strangers.push_back(caller(listener));
    strangers.back().advance();
    reception.advance();
  }
  for (int i = 0; i < 8; ++i) reception.advance();
  std::list<Approach> callers;
  for (int rank : {2, 3, 4}) callers.push_back(caller(listener, rank));
  reception.advance();
  CHECK(proven_of(reception, callers) == 3);
}
