#include "runtime/failure_detector.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "../folder.h"
#include "net/sockets.h"

using namespace tutti;
using namespace std::chrono_literals;
using tutti::runtime::FailureDetector;

namespace {

constexpr auto long_stop = 30s;

/// Rank 0 of four, on another machine than the others, under a launcher.
struct Launched {
  Folder folder;
  std::string name = "ends-test-" + std::to_string(::getpid());
  control::Presence presence{name, 0, 4, folder.path(), 1};
  base::Fd listener = net::listen_abstract(name);
  FailureDetector ends{presence, net::EndNotices(name, "job"), control::Siblings("job")};
  base::Fd helper = net::accept_one(listener);

  void say(const std::string& packet) const {
    ::send(helper.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
  }
};

}  // namespace

TEST_CASE(
    "of the ranks that the launcher says have ended the first is lost, in the launcher's words") {
  Launched launched;
  CHECK_FALSE(launched.ends.poll_lost(long_stop));
  launched.say("worker 2\nworker 2 on h1 ended with exit code 0");
  launched.say("worker 1\nworker 1 on h1 ended with exit code 42");
  const auto lost = launched.ends.poll_lost(long_stop);
  REQUIRE(lost);
  CHECK(lost->rank == 2);
  CHECK(lost->reason == "worker 2 on h1 ended with exit code 0");
  CHECK_FALSE(lost->stopped);
}

TEST_CASE("a store over other ranks does not lose a rank that has ended") {
  Launched launched;
  launched.say("worker 2\nworker 2 on h1 ended with exit code 0");
  CHECK_FALSE(launched.ends.poll_lost(long_stop, {0, 1, 3}));
  launched.say("worker 3\nworker 3 on h1 ended with exit code 0");
  CHECK(launched.ends.poll_lost(long_stop, {0, 1, 3})->rank == 3);
}

TEST_CASE("a process that is seen to end is lost when the launcher has said how it ended") {
  Launched launched;
  const pid_t child = ::fork();
  if (child == 0) {
    const control::PidFiles come(launched.folder.path(), launched.name, 1);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(launched.ends.poll_lost(long_stop));
  CHECK_FALSE(launched.ends.poll_leaving());
  launched.say("worker 1\nworker 1 on h0 ended with exit code 3");
  const auto lost = launched.ends.poll_lost(long_stop);
  REQUIRE(lost);
  CHECK(lost->rank == 1);
  CHECK(lost->reason == "worker 1 on h0 ended with exit code 3");
}

TEST_CASE("the end of a server is no rank's") {
  Launched launched;
  launched.say("server 1\nserver 1 on h1 ended with exit code 0");
  CHECK_FALSE(launched.ends.poll_lost(long_stop));
}
