#include "control/pid_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "tutti/error.h"

namespace tutti::control {
namespace {

/// A process has different numbers in different pid name spaces.
std::string pid_name_space() {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
}

}  // namespace

ProcessState state_of(pid_t process) {
  constexpr int fields_before_start = 18;
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", process)), line);
  // The name of the program, in brackets, may contain any character.
  const auto name_ends = line.rfind(") ");
  if (name_ends == line.npos) return {};
  ProcessState state;
  std::istringstream fields(line.substr(name_ends + 2));
  fields >> state.letter >> state.parent;
  for (int i = 0; i < fields_before_start; ++i) fields >> state.start;
  return state;
}

PidFiles::PidFiles(std::string folder, std::string job, int rank)
    : folder_(std::move(folder)), job_(std::move(job)), rank_(rank) {
  if (!folder_.empty()) claim(rank);
}

std::string PidFiles::path_of(int rank) const {
  return fmt::format("{}/tutti-{}-{}.pid", folder_, job_, rank);
}

std::string PidFiles::note_of(int rank) const {
  return fmt::format("{}/tutti-{}-{}.lost", folder_, job_, rank);
}

/// The complete file gets its name in one step, because others may read it at any time. It gets the
/// name only if no other file has it.
void PidFiles::claim(int rank) const {
  const std::string unnamed = fmt::format("{}.{}", path_of(rank), ::getpid());
  std::ofstream(unnamed) << ::getpid() << ' ' << state_of(::getpid()).start << ' '
                         << pid_name_space() << '\n';
  const bool is_taken = ::link(unnamed.c_str(), path_of(rank).c_str()) != 0 && errno == EEXIST;
  std::remove(unnamed.c_str());
  if (is_taken) refuse(rank);
}

void PidFiles::refuse(int rank) const {
  pid_t first = 0;
  std::ifstream(path_of(rank)) >> first;
  throw Error(
      ErrorCode::unsupported,
      fmt::format("process {} cannot be rank {} of the job: process {} is, for it called create "
                  "first. mpirun started one process for each rank; others with its environment "
                  "(children by multiprocessing's 'spawn' or 'forkserver', or by subprocess; a "
                  "second program after the first) are no ranks. Use the store in process {} "
                  "alone, and hand it their data; a store of one process, such as 'local', works "
                  "in all",
                  ::getpid(), rank, first, first));
}

bool PidFiles::has_come(int rank) const {
  return !folder_.empty() && ::access(path_of(rank).c_str(), F_OK) == 0;
}

bool PidFiles::has_ended(int rank) const {
  if (folder_.empty()) return false;
  pid_t process = 0;
  std::string start;
  std::string name_space;
  if (!(std::ifstream(path_of(rank)) >> process >> start >> name_space)) return false;
  if (name_space != pid_name_space()) return false;
  const ProcessState now = state_of(process);
  // A process that has ended keeps its number until its parent waits for it.
  return now.letter == 'X' || now.letter == 'Z' || now.start != start;
}

void PidFiles::note_lost(const FailedRank& lost) const {
  if (!folder_.empty()) std::ofstream(note_of(rank_)) << lost.rank << ' ' << lost.reason << '\n';
}

std::optional<FailedRank> PidFiles::lost_to(int rank) const {
  FailedRank lost;
  std::ifstream file(note_of(rank));
  if (folder_.empty() || !(file >> lost.rank) || !std::getline(file >> std::ws, lost.reason)) {
    return std::nullopt;
  }
  return lost;
}

}  // namespace tutti::control
