#pragma once
#include <ostream>
#include <string>
#include <vector>

namespace tutti::observe {

/// Merges the traces of a store's ranks, which `write_trace` wrote, into one, and corrects their
/// clocks. Clocks are set at `create` with some error, and drift afterwards. The gates show by how
/// much, because no rank leaves a gate before all have entered it. The metadata event of a rank has
/// the correction at the beginning and at the end of the recording, and the remaining error.
///
/// `files` are ordered by rank. Returns the ranks that are left out, because their file is missing,
/// incomplete, of another job than rank 0's, or no regular file.
std::vector<int> merge_traces(const std::vector<std::string>& files, std::ostream& out);

}  // namespace tutti::observe
