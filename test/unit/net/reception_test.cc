#include "net/reception.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "../base/stderr_of.h"
#include "net/approach.h"
#include "net/bytes.h"
#include "net/sockets.h"
#include "tutti/error.h"

using namespace tutti::net;
using namespace std::chrono_literals;
using Catch::Contains;
using tutti::base::Clock;
using tutti::base::Fd;

namespace {

/// Nothing in these tests takes this long unless it hangs.
constexpr auto reception_patience = 6s;
const Secret secret{};

/// A caller, who speaks when it advances.
Approach caller(const Fd& listener, int rank = 1) {
  std::vector<Candidate> candidates;
  candidates.push_back({start_connecting("127.0.0.1", port_of(listener), ""), "127.0.0.1"});
  return {std::move(candidates), Identity{rank, secret, "link"}, 0};
}

Reception receptionist(const Fd& listener, bool waits_for_room) {
  return {listener,
          Identity{0, secret, "link"},
          {[](int) { return true; }, std::size_t{0}, waits_for_room}};
}

/// As long as it lives, this process can open this many more files and sockets.
class Room {
 public:
  explicit Room(rlim_t more = 0) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(Fd(::dup(STDERR_FILENO)).get()) + more;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~Room() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

 private:
  rlimit before_{};
};

/// How many prove themselves before the time is over, or all have.
std::size_t proven_of(Reception& reception, std::list<Approach>& callers) {
  std::size_t proven = 0;
  const auto end = Clock::now() + reception_patience;
  while (!callers.empty() && Clock::now() < end) {
    callers.remove_if([](Approach& one) { return one.advance().has_value(); });
    proven += reception.advance().size();
  }
  return proven + reception.advance().size();
}

/// Hears the caller until it is refused, and throws that error.
void hear(Reception& reception, Approach& caller) {
  const auto end = Clock::now() + reception_patience;
  while (Clock::now() < end && !caller.advance()) reception.advance();
}

}  // namespace

TEST_CASE("callers wait while there is no room for them, and are heard when there is") {
  const Fd listener = listen_tcp("127.0.0.1");
  Reception reception = receptionist(listener, true);
  std::list<Approach> callers;
  callers.push_back(caller(listener));
  {
    const Room none;
    CHECK(reception.advance().empty());
    // It sleeps meanwhile.
    REQUIRE(reception.deadline());
    CHECK_FALSE(wait_readable(reception.descriptor(), *reception.deadline() - 10ms));
  }
  CHECK(proven_of(reception, callers) == 1);
}

TEST_CASE(
    "connections to a caller's other addresses, which it drops or proves late, cause no warning") {
  const Fd listener = listen_tcp("127.0.0.1");
  bool is_expected = true;
  const std::string log = stderr_of([&] {
    Reception reception(listener, Identity{0, secret, "link"},
                        {[&](int) { return is_expected; }, std::size_t{1}, true});
    const Fd dropped = start_connecting("127.0.0.1", port_of(listener), "");
    wait_writable(dropped, Clock::now() + reception_patience);
    std::list<Approach> callers;
    callers.push_back(caller(listener));
    REQUIRE(proven_of(reception, callers) == 1);
    ::shutdown(dropped.get(), SHUT_RDWR);
    is_expected = false;
    Approach late = caller(listener);
    CHECK_THROWS(hear(reception, late));
  });
  CHECK(log.empty());
}

TEST_CASE("a rank for which nobody waits, and which has not come before, causes a warning") {
  const Fd listener = listen_tcp("127.0.0.1");
  const std::string log = stderr_of([&] {
    Reception reception(listener, Identity{0, secret, "link"},
                        {[](int) { return false; }, std::size_t{1}, true});
    Approach stranger = caller(listener);
    CHECK_THROWS(hear(reception, stranger));
  });
  CHECK_THAT(log, Contains("has closed 1 connection that came in: it says that it is rank 1"));
}

TEST_CASE("if nobody waits for room, a lack of room is an error") {
  const Fd listener = listen_tcp("127.0.0.1");
  Reception reception = receptionist(listener, false);
  const Approach one = caller(listener);
  const Room none;
  CHECK_THROWS_WITH(reception.advance(), Contains("Too many open files"));
}

TEST_CASE("ranks that come together among too many strangers do not push each other out") {
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

namespace {

/// Another process, which holds this many connections to the listener and sends nothing.
class SilentCallers {
 public:
  SilentCallers(const Fd& listener, int count) : process_(::fork()) {
    if (process_ != 0) return;
    std::list<Fd> held;
    for (int i = 0; i < count; ++i) {
      held.push_back(start_connecting("127.0.0.1", port_of(listener), ""));
      wait_writable(held.back(), Clock::now() + reception_patience);
    }
    ::pause();
  }
  ~SilentCallers() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  SilentCallers(const SilentCallers&) = delete;
  SilentCallers& operator=(const SilentCallers&) = delete;

 private:
  const pid_t process_;
};

}  // namespace

TEST_CASE("strangers leave descriptors to the process, and peers come in among them") {
  const bool waits_for_room = GENERATE(true, false);
  // Some for strangers, or none at all.
  const rlim_t more = GENERATE(as<rlim_t>{}, 48, 36, 8);
  const Fd listener = listen_tcp("127.0.0.1");
  const SilentCallers silent(listener, 100);
  Reception reception = receptionist(listener, waits_for_room);
  const Room room(more);
  // The siege has come.
  for (const auto until = Clock::now() + 300ms; Clock::now() < until;) reception.advance();
  std::list<Fd> opened;
  for (rlim_t i = 0; i < std::min<rlim_t>(more - 4, 28); ++i) {
    opened.emplace_back(::dup(STDERR_FILENO));
    REQUIRE(opened.back());
  }
  opened.clear();
  std::list<Approach> callers;
  callers.push_back(caller(listener));
  CHECK(proven_of(reception, callers) == 1);
}

TEST_CASE("a caller that has said its rank is not turned away for others while some are silent") {
  const Fd listener = listen_tcp("127.0.0.1");
  Reception reception = receptionist(listener, true);
  const auto connected = [&] { return start_connecting("127.0.0.1", port_of(listener), ""); };
  const auto is_open = [](const Fd& socket) {
    errno = 0;
    std::array<char, 256> said{};
    while (::recv(socket.get(), said.data(), said.size(), MSG_DONTWAIT) > 0) continue;
    return errno == EAGAIN;
  };
  const Fd speaking = connected();
  Bytes hello;
  append(hello, as_bytes("tutti/c3"));
  append_u32(hello, 1);
  append_u32(hello, 0);
  append(hello, Bytes(nonce_bytes));
  wait_writable(speaking, Clock::now() + reception_patience);
  REQUIRE(::send(speaking.get(), hello.data(), hello.size(), MSG_NOSIGNAL) > 0);
  for (int i = 0; i < 10; ++i) reception.advance();  // takes the caller, and hears it
  std::vector<Fd> silent;
  silent.reserve(300);
  for (int i = 0; i < 300; ++i) silent.push_back(connected());
  const auto end = Clock::now() + reception_patience;
  while (is_open(silent.front()) && Clock::now() < end) reception.advance();
  CHECK_FALSE(is_open(silent.front()));
  CHECK(is_open(speaking));
}

TEST_CASE("strangers do not keep a rank from accepting the others, however few files it may have") {
  const Fd listener = listen_tcp("127.0.0.1");
  const SilentCallers silent(listener, 100);
  std::string said;
  const Room room(12);
  std::thread other([&] {
    std::vector<Candidate> candidates;
    candidates.push_back({start_connecting("127.0.0.1", port_of(listener), ""), "127.0.0.1"});
    try {
      said = "rank " + std::to_string(prove_to(std::move(candidates), Identity{1, secret, "link"},
                                               0, Clock::now() + 2 * reception_patience)
                                          .rank);
    } catch (const tutti::Error& error) {
      said = error.what();
    }
  });
  CHECK(accept_peers(listener, Identity{0, secret, "link"}, {1},
                     Clock::now() + 2 * reception_patience)
            .size() == 1);
  other.join();
  CHECK(said == "rank 0");
}
