#pragma once
#include <string_view>

namespace tutti::base {

/// Whether no other rank of an Open MPI job has said this on this machine. All ranks may say
/// something in the same words, such as that an option is unknown, and the user should read it
/// once. A file in the job's own folder, which mpirun removes, remembers the text. Returns true in
/// a process outside of such a job.
bool is_first_to_say(std::string_view text);

}  // namespace tutti::base
