#pragma once

namespace tutti::base {

/// Returns to the system what the process has freed. malloc keeps pages that lie between others in
/// use, and whole arenas of threads that have ended.
void return_freed_memory();

}  // namespace tutti::base
