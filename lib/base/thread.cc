#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <csignal>
#include <utility>

#include "base/failure.h"

namespace tutti::base {
namespace {

/// All signals except those that a thread's own fault raises. If those were blocked, the kernel
/// would kill the process without calling the program's handlers, for example those of a sanitizer
/// or a crash reporter.
sigset_t signals_of_others() {
  sigset_t set;
  sigfillset(&set);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&set, own);
  return set;
}

}  // namespace

NamedThread::NamedThread(const std::string& name, std::function<void()> run) {
  check(name.size() <= 15, "thread names have at most 15 characters");
  const sigset_t blocked = signals_of_others();
  sigset_t before;
  // The new thread inherits the mask of its creator.
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  thread_ = std::thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), name.c_str());
}

void sleep_precisely() {
  constexpr unsigned long nanoseconds = 1000;
  ::prctl(PR_SET_TIMERSLACK, nanoseconds);
}

std::set<int> usable_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return {0};
  std::set<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.insert(cpu);
  }
  return cpus;
}

}  // namespace tutti::base
