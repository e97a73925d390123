#pragma once
#include <ostream>
#include <string>
#include <vector>

namespace tutti::observe {

/// Merges the traces of a store's ranks, which `write_trace` wrote, into one, and corrects their
/// clocks. Clocks are set at `create` within some error and drift afterwards. The gates show by how
/// much, for no rank leaves a gate before all have entered it. A rank's metadata event then gives
/// the correction at the beginning and at the end of the recording, and the remaining error.
///
/// `files`: by rank. Returns the ranks whose files are missing, cut short, not of rank 0's job, or
/// no files, as links and pipes are; these are left out.
std::vector<int> merge_traces(const std::vector<std::string>& files, std::ostream& out);

}  // namespace tutti::observe
