#pragma once
#include <string_view>

namespace tutti::base {

/// Whether no other rank of an Open MPI job has said this on this machine. All ranks may say
/// something in the same words, such as that an option is unknown, and the user should read it
/// once. A file in the job's own folder, which mpirun removes, remembers the text. Returns true in
/// a process outside of such a job.
///
/// The text is remembered until the job ends. So it is one that a rank says only when it ends, and
/// `about` tells events of one text apart: texts about different stores are said for each.
bool is_first_to_say(std::string_view text, std::string_view about = {});

}  // namespace tutti::base
