#include "base/thread.h"

#include <pthread.h>

#include <catch2/catch.hpp>
#include <csignal>

using tutti::base::NamedThread;

TEST_CASE("a named thread takes no signal from others, and its own faults reach the handlers") {
  sigset_t blocked;
  NamedThread("signals", [&] { pthread_sigmask(SIG_SETMASK, nullptr, &blocked); }).join();
  for (const int other : {SIGTERM, SIGINT, SIGCHLD, SIGUSR1}) CHECK(sigismember(&blocked, other));
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) CHECK_FALSE(sigismember(&blocked, own));
}

TEST_CASE("who makes a named thread keeps his own signals") {
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  NamedThread("signals", [] {}).join();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGTERM, SIGINT, SIGSEGV}) {
    CHECK(sigismember(&before, signal) == sigismember(&after, signal));
  }
}
