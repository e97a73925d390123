#include "control/presence.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "../folder.h"

using namespace std::chrono_literals;
using tutti::Folder;
using tutti::control::PidFiles;
using tutti::control::Presence;

namespace {

constexpr auto long_stop = 30s;

/// A rank of three that does this and ends.
void run(const Folder& folder, int rank, const std::function<void(Presence&)>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    Presence presence("presence-test-" + std::to_string(::getppid()), rank, 3, folder.path(), 3);
    work(presence);
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

}  // namespace

TEST_CASE("of several ranks that have ended the one is lost that the others had found lost") {
  const Folder folder;
  run(folder, 2, [](Presence&) {});
  run(folder, 1, [](Presence& presence) {
    const auto lost = presence.poll_lost(long_stop);
    if (!lost || lost->rank != 2) ::_exit(1);
  });
  run(folder, 0, [](Presence& presence) {
    const auto lost = presence.poll_lost(long_stop);
    if (!lost || lost->rank != 2) ::_exit(1);
  });
}

TEST_CASE("a rank that is asked for is lost, though it had found lost one that is not") {
  const Folder folder;
  run(folder, 2, [](Presence&) {});
  run(folder, 1, [](Presence& presence) { presence.poll_lost(long_stop); });
  run(folder, 0, [](Presence& presence) {
    const auto lost = presence.poll_lost(long_stop, {0, 1});
    if (!lost || lost->rank != 1) ::_exit(1);
  });
}

TEST_CASE("the rank that an ended rank had found lost is named, and not the ended rank itself") {
  const Folder folder;
  const std::string job = "presence-test-" + std::to_string(::getpid());
  Presence mine(job, 0, 3, folder.path(), 3);
  const pid_t child = ::fork();
  if (child == 0) {
    PidFiles(folder.path(), job, 1).note_lost({0, "its process has been stopped"});
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const auto lost = mine.poll_lost(long_stop);
  REQUIRE(lost);
  CHECK(lost->rank == 1);
}
