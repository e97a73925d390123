#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/disk.h"
#include "net/bytes.h"
#include "ps/durable/journal_format.h"

namespace tutti::ps {

/// The files of one server's state: a checkpoint, and journals of the messages that have come
/// since. Both have a generation. The journal of a generation holds the messages since the
/// checkpoint of the same generation, and says where the journal before it ended. Beside them there
/// may be a prepared state, with which a job was to begin. It does not count until it is known that
/// all servers of that job have theirs. Files are named by their names on disk.
class StateFiles {
 public:
  /// Finds the files that exist. Throws `invalid_argument` if the folder cannot be read.
  StateFiles(std::shared_ptr<base::Disk> disk, int rank, int servers);

  base::Disk& disk() const { return *disk_; }
  int rank() const { return rank_; }
  int servers() const { return servers_; }
  bool has_state() const { return !checkpoints_.empty(); }
  /// Whether there is a prepared state, of a job whose beginning was interrupted.
  bool has_prepared() const { return has_prepared_; }
  /// The newest checkpoint's generation; 0 if there is no checkpoint.
  std::uint64_t generation() const { return has_state() ? *checkpoints_.rbegin() : 0; }
  /// The highest generation of all files that exist.
  std::uint64_t last_generation() const;
  /// The content of the newest checkpoint. Throws `invalid_argument` if it is damaged.
  net::Bytes read_checkpoint() const;
  net::Bytes read_prepared() const;
  /// Calls `take` with every record since the checkpoint. Throws `invalid_argument` if a record is
  /// missing, damaged or of another job. Ignores records at the end of the last journal that had
  /// not reached the disk.
  void replay(std::uint64_t job, const std::function<void(net::ConstBytes)>& take) const;

  std::string checkpoint(std::uint64_t generation) const;
  std::string journal(std::uint64_t generation) const;
  std::string prepared() const;
  /// Removes unfinished files of killed processes. Call it only if no other process writes.
  void remove_unfinished() const;
  /// Removes files of older generations.
  void remove_before(std::uint64_t generation) const;

 private:
  void check_follows(const JournalPlace& said, const JournalPlace& before,
                     std::uint64_t generation) const;

  const std::shared_ptr<base::Disk> disk_;
  const int rank_;
  const int servers_;
  const std::string name_;  ///< "server-0-of-2."
  std::set<std::uint64_t> checkpoints_;
  std::set<std::uint64_t> journals_;
  bool has_prepared_ = false;
};

/// The file whose lock a server holds while it uses its files.
std::string lock_of(int rank, int servers);

/// The numbers of servers of which the folder has states: one number for each job.
std::set<int> server_counts(const base::Disk& disk);

}  // namespace tutti::ps
