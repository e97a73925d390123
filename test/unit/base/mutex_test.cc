#include "base/mutex.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "stderr_of.h"

using namespace tutti::base;

namespace {

/// Runs `body` in a process, and returns how the process ends and what it prints.
template <typename Body>
std::pair<int, std::string> end_of(const Body& body) {
  int status = 0;
  const std::string said = stderr_of([&] {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);
      body();
      ::_exit(0);
    }
    ::waitpid(child, &status, 0);
  });
  return {status, said};
}

}  // namespace

TEST_CASE("a thread takes mutexes of ever higher levels, in any order again once it has let go") {
  Mutex low(3);
  Mutex high(5);
  const auto [status, said] = end_of([&] {
    for (int i = 0; i < 2; ++i) {
      const Lock first(low);
      const Lock second(high);
    }
    const Lock alone(high);
  });
  CHECK(status == 0);
  CHECK(said.empty());
}

TEST_CASE("a process ends whose thread takes a mutex of a lower level, or of the same") {
  if (!checks_lock_order) return;
  Mutex mutex(3);
  for (const int level : {3, 5}) {
    Mutex held(level);
    const auto [status, said] = end_of([&] {
      const Lock first(held);
      const Lock second(mutex);
    });
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
    CHECK(said.find("holds a mutex of level " + std::to_string(level) + " takes one of level 3") !=
          std::string::npos);
  }
}

TEST_CASE("a mutex that is free is no way around the order") {
  if (!checks_lock_order) return;
  Mutex low(3);
  Mutex high(5);
  const auto [status, said] = end_of([&] {
    const Lock first(high);
    if (low.try_lock()) low.unlock();
  });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
}
