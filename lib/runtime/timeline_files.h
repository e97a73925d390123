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

/// The files of a store's timeline. Each rank writes a part on its own host before the others may
/// count it as gone. Rank 0 leaves last, and merges the parts that it can read. So no rank waits
/// for another one, and a rank that dies loses only its own part.
class TimelineFiles {
 public:
  /// Opens the files. If the option is set, this is collective, and also compares the nodes'
  /// clocks. Throws `invalid_argument` on all ranks if one of them cannot write, or if a link, a
  /// pipe or anything else that is not a file stands at the path of its part. The error names the
  /// rank, the path and the reason.
  static std::unique_ptr<TimelineFiles> open(const World& world, const topology::Topology& topology,
                                             const Options& options);

  /// Writes this rank's part. Blocks for as long as the disk takes. If it fails, it logs the error
  /// and leaves nothing of the part.
  void write_part(const observe::Timeline& timeline);
  /// Rank 0 calls this when all others have written their parts. It merges the parts into one file
  /// and removes them. It logs which ranks' parts it did not find, and where they lie. If it cannot
  /// write the file, or if its own part is missing, it logs why, removes the file and leaves the
  /// parts.
  void merge();
  /// Logs where the part is. Call this after a loss: then there is no merged file.
  void leave_part();

 private:
  TimelineFiles(const World& world, const Options& options);
  std::string part_of(int rank) const;
  /// Creates the files. Returns why that failed, or nothing.
  std::string create_files();
  /// Logs which ranks' parts the merged file lacks.
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
