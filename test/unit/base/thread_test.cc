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

TEST_CASE("a thread that makes a named thread keeps its own signals") {
  sigset_t mine;
  sigset_t before;
  sigset_t after;
  sigemptyset(&mine);
  sigaddset(&mine, SIGUSR1);
  pthread_sigmask(SIG_SETMASK, &mine, &before);
  NamedThread("signals", [] {}).join();
  pthread_sigmask(SIG_SETMASK, &before, &after);
  CHECK(sigismember(&after, SIGUSR1) == 1);
  for (const int signal : {SIGTERM, SIGINT, SIGSEGV}) CHECK(sigismember(&after, signal) == 0);
}
