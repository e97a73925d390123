#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

#include "control/loss_slot.h"

namespace tutti::control {

/// Files in a folder of the job on this machine: one for each rank that has called `create`. A file
/// outlives its process, so a rank that comes later learns from it which ranks have already ended.
class PidFiles {
 public:
  /// Writes this rank's file. `folder` is a folder of the launcher, which removes it with the job.
  /// If it is empty, there are no files. `job` distinguishes the jobs of a launcher. Throws
  /// `unsupported` if another process has written this rank's file: then that process is the rank.
  /// If the folder cannot be used, that is no error, and nothing is known of other processes.
  PidFiles(std::string folder, std::string job, int rank);

  /// Whether the process of this rank has called `create`. Neither this function nor `has_ended`
  /// blocks.
  bool has_come(int rank) const;
  /// Whether the process of this rank has called `create` and has ended since.
  bool has_ended(int rank) const;

  /// Writes down the rank that this process has found lost. Processes that see this one end because
  /// of that loss read it.
  void note_lost(const FailedRank& lost) const;
  /// The rank that the process of this rank had noted as lost before it ended.
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
  /// The letter of the state: running, sleeping, stopped, ...; proc(5) lists the letters. 'X' if
  /// there is no such process.
  char letter = 'X';
  pid_t parent = 0;
  /// The time at which the process started, in clock ticks since the machine started. A later
  /// process with the same number has another time.
  std::string start{};
};
ProcessState state_of(pid_t process);

}  // namespace tutti::control
