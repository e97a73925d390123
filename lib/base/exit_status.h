#pragma once

namespace tutti::base {

/// From now on this process ends with status 1 where it exits with 0: something has gone wrong of
/// which no error has told the program. Its forked children do not. Thread-safe.
void fail_at_exit();

}  // namespace tutti::base
