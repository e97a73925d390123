#pragma once
#include <ostream>
#include <string>
#include <vector>

namespace tutti::observe {

/// Puts the traces of a store's ranks, files of `write_trace`, together. How clocks were set
/// wrong at `create`, and have drifted since, shows in the gates, which nobody leaves before
/// everybody has come. It is taken out: a rank's metadata event then says by how much, at the
/// beginning and at the end of the recording, and within which error.
///
/// `files`: by rank. Returns the ranks whose files are missing, cut short, or not of rank 0's job;
/// those are left out.
std::vector<int> merge_traces(const std::vector<std::string>& files, std::ostream& out);

}  // namespace tutti::observe
