#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "observe/timeline.h"
#include "observe/trace.h"
#include "runtime/world.h"
#include "topology/topology.h"
#include "tutti/options.h"

namespace tutti::runtime {

/// Where a store's timeline goes: each rank writes a part on its own host before the others may
/// count it as gone, and rank 0, which leaves last, puts those that it can see together. So nobody
/// waits for anybody, and a rank that dies costs its own part alone.
class TimelineFiles {
 public:
  /// Collective when the option is set; then it also compares the nodes' clocks. Opens the files.
  /// Throws `invalid_argument`, on all ranks, naming the rank that cannot write, path and reason,
  /// also when something other than a file stands at its part's path, such as a link or a pipe.
  static std::unique_ptr<TimelineFiles> open(const World& world, const topology::Topology& topology,
                                             const Options& options);

  /// Writes this rank's part. Blocks for as long as the disk takes. If it fails, it logs the error
  /// and leaves nothing of the part.
  void write_part(const observe::Timeline& timeline);
  /// On rank 0 when all others have written theirs: one file out of the parts, which are removed.
  /// Logs which ranks' parts it did not find, and where they lie. When the file cannot be written,
  /// or rank 0's part is missing, logs why; no such file stays then, and the parts do.
  void merge();
  /// After a loss: says where the part is. There is no whole file then.
  void leave_part();

 private:
  TimelineFiles(const World& world, const Options& options);
  std::string part_of(int rank) const;
  /// Returns why not, or nothing.
  std::string create_files();
  /// Logs which ranks the whole file lacks.
  void warn_of(const std::vector<int>& missing) const;
  void compare_clocks(const World& world, const topology::Topology& topology);

  const int rank_;
  const int size_;
  const std::string given_;  ///< without the store's number
  const std::string path_;
  observe::TraceInfo info_;
  std::vector<int> node_of_;
  bool has_part_ = false;  ///< it has been written
};

/// The file of the store with this number over its ranks. For "a/trace.json" the first store writes
/// to that file itself, and the second to "a/trace.2.json". The first store over only the job's
/// ranks 1 and 3 writes to "a/trace.ranks-1-3.json".
std::string timeline_path(const std::string& path, int creation_number,
                          const std::vector<int>& world_ranks = {});

}  // namespace tutti::runtime
