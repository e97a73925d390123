#pragma once
#include <string_view>

namespace tutti::base {

/// Whether no other rank of an Open MPI job has said this on this machine. All ranks may say
/// something in the same words, such as that a store was left open, and the user should read it
/// once. A file in the job's own folder, which mpirun removes, remembers the text. Returns true in
/// a process outside of such a job.
///
/// The file remembers the text until the job ends. So call this only for what a rank says when it
/// ends. `about` tells events of one text apart: a text about another store is said again.
bool is_first_to_say(std::string_view text, std::string_view about = {});

}  // namespace tutti::base
