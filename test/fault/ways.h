#pragma once
#include <string>

namespace fault {

/// Says on stdout which rank goes wrong now, and how; then does it, on the calling thread:
///
///   kill, segv, abort, term   the signal of that name
///   oom                       takes memory until the test, which hears of it, sends SIGKILL
///   terminate                 an exception leaves another thread
///   exit0, exit3              std::exit with that status, whatever is open
///   vanish                    _exit(0)
///   throw                     throws `Unwinding`
///   stop                      stops until somebody continues the process
///   nap                       sleeps for 1.5 s
///
/// Returns after `stop` and `nap` alone.
void go_wrong(const std::string& how);

/// Unwinds the stack, stores included, up to main.
struct Unwinding {};

/// From now on the process prints a line when a SIGTERM ends it.
void say_when_terminated();

/// This process's rank, also before MPI is up.
int rank();

}  // namespace fault
