#pragma once

namespace tutti::base {

/// From now on, a tutti::Error that the program does not catch ends the process with one line of
/// the log, which also goes to stderr, and then with SIGABRT, as before. Open MPI's own handler of
/// SIGABRT does not get the signal, because its stack trace would hide the line. Does nothing if
/// the program has a terminate handler of its own, and changes nothing for other exceptions. Any
/// thread.
void shorten_uncaught_errors();

}  // namespace tutti::base
