#pragma once

namespace tutti::base {

/// From now on this process ends with status 1 if it would exit with 0, because a failure has
/// happened of which no error has told the program. Forked children of the process are not
/// concerned. Thread-safe.
void fail_at_exit();

}  // namespace tutti::base
