#include "control/pid_files.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "../folder.h"
#include "tutti/error.h"

using tutti::Error;
using tutti::ErrorCode;
using tutti::Folder;
using tutti::control::PidFiles;
using tutti::control::state_of;

namespace {

/// The text of the `unsupported` that the call throws.
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::unsupported);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a rank that has called create and has ended is known to those that come later") {
  const Folder folder;
  const PidFiles mine(folder.path(), "job", 0);
  CHECK_FALSE(mine.has_ended(1));
  const pid_t child = ::fork();
  if (child == 0) {
    const PidFiles theirs(folder.path(), "job", 1);
    ::_exit(theirs.has_ended(0) ? 1 : 0);
  }
  int status = -1;
  siginfo_t ended{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  // Ended, but its parent has not asked for its status.
  CHECK(mine.has_ended(1));
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(mine.has_ended(1));
  CHECK_FALSE(mine.has_ended(0));
  CHECK_FALSE(PidFiles(folder.path(), "another job", 0).has_ended(1));
}

TEST_CASE("a process that has got the number of an ended one is not taken for it") {
  const Folder folder;
  const PidFiles mine(folder.path(), "job", 0);
  const std::string file = folder.path() + "/tutti-job-0.pid";
  REQUIRE(std::filesystem::exists(file));
  std::string id;
  std::string start;
  std::string name_space;
  std::ifstream(file) >> id >> start >> name_space;
  CHECK(id == std::to_string(::getpid()));
  CHECK(start == state_of(::getpid()).start);
  std::ofstream(file) << id << " 1" << start << ' ' << name_space;
  CHECK(mine.has_ended(0));
  // If the process has another name space, its number means another process here, so nothing is
  // known of it.
  std::ofstream(file) << id << " 1" << start << " pid:[1]";
  CHECK_FALSE(mine.has_ended(0));
}

TEST_CASE("a second process that would be the same rank is told which one is") {
  const Folder folder;
  const PidFiles mine(folder.path(), "job", 0);
  const std::string said = message_of([&] { PidFiles(folder.path(), "job", 0); });
  CHECK(said.find("cannot be rank 0") != said.npos);
  CHECK(said.find("process " + std::to_string(::getpid()) + " is") != said.npos);
  CHECK_NOTHROW(PidFiles(folder.path(), "job", 1));
  // It leaves the rank's own file as it was, and none of its own.
  CHECK_FALSE(mine.has_ended(0));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("without a folder that can be used nobody is known to have ended") {
  CHECK_FALSE(PidFiles("", "job", 0).has_ended(1));
  CHECK_FALSE(PidFiles("/nonexistent", "job", 0).has_ended(1));
}
