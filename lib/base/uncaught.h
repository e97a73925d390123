#pragma once

namespace tutti::base {

/// From now on std::terminate ends the process after a tutti::Error with one line of the log, which
/// also goes to stderr, and then with SIGABRT, as before. An error that the program does not catch
/// leads there, and so does std::terminate in a handler of an error. Open MPI's own handler of
/// SIGABRT does not get the signal, because its stack trace would hide the line. Does nothing if
/// the program has a terminate handler of its own, and changes nothing for other exceptions. Any
/// thread.
void shorten_uncaught_errors();

}  // namespace tutti::base
