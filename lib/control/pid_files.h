#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

#include "control/loss_slot.h"

namespace tutti::control {

/// A file for each rank that has called `create`, in a folder of the job on this machine. A file
/// outlives its process, so a rank that comes later learns from it which ranks have ended before.
class PidFiles {
 public:
  /// `folder`: a folder of the launcher, which removes it with the job; empty: there are no files.
  /// `job` distinguishes the jobs of a launcher. Writes this rank's file. Throws `unsupported` if
  /// another process has written it: that one is the rank. A folder that cannot be used is no
  /// error: then nothing is known of other processes.
  PidFiles(std::string folder, std::string job, int rank);

  /// Whether the process of that rank has called `create`. Neither function blocks.
  bool has_come(int rank) const;
  /// Whether it has called `create` and has ended since.
  bool has_ended(int rank) const;

  /// Keeps the rank that this process has found lost, for those that see this process end because
  /// of that.
  void note_lost(const FailedRank& lost) const;
  /// The rank that the process of that rank had noted as lost before it ended.
  std::optional<FailedRank> lost_to(int rank) const;

 private:
  std::string path_of(int rank) const;
  std::string note_of(int rank) const;
  void claim(int rank) const;
  [[noreturn]] void refuse(int rank) const;

  const std::string folder_;
  const std::string job_;
  const int rank_;
};

/// The state of a process, from /proc/<process>/stat.
struct ProcessState {
  /// Running, sleeping, stopped, ...: proc(5) lists the letters. 'X' when there is no such process.
  char letter = 'X';
  pid_t parent = 0;
  /// The time at which it started, in clock ticks since the machine did. A process that uses the
  /// number again has another time.
  std::string start{};
};
ProcessState state_of(pid_t process);

}  // namespace tutti::control
