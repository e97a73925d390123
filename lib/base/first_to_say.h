#pragma once
#include <string_view>

namespace tutti::base {

/// Whether no other rank of an Open MPI job has said this on this machine. What all ranks say in
/// the same words, such as that an option is unknown, the user then reads once. The job's own
/// folder, which mpirun removes, remembers it. Returns true in a process outside of such a job.
bool is_first_to_say(std::string_view text);

}  // namespace tutti::base
