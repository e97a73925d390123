#include "control/pid_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace tutti::control {
namespace {

/// A process of another name space has another number there.
std::string pid_name_space() {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
}

}  // namespace

ProcessState state_of(pid_t process) {
  constexpr int fields_before_start = 19;
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", process)), line);
  // The name of the program, in brackets, may hold anything.
  const auto name_ends = line.rfind(") ");
  if (name_ends == line.npos) return {};
  ProcessState state;
  std::istringstream fields(line.substr(name_ends + 2));
  fields >> state.letter;
  for (int i = 0; i < fields_before_start; ++i) fields >> state.start;
  return state;
}

PidFiles::PidFiles(std::string folder, std::string job, int rank)
    : folder_(std::move(folder)), job_(std::move(job)) {
  if (!folder_.empty()) write(rank);
}

std::string PidFiles::path_of(int rank) const {
  return fmt::format("{}/tutti-{}-{}.pid", folder_, job_, rank);
}

/// Renamed when it is whole, for others may read at any time.
void PidFiles::write(int rank) const {
  const std::string unfinished = path_of(rank) + ".new";
  std::ofstream(unfinished) << ::getpid() << ' ' << state_of(::getpid()).start << ' '
                            << pid_name_space() << '\n';
  std::rename(unfinished.c_str(), path_of(rank).c_str());
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
  // A process whose parent has not asked for its end yet still has its number.
  return now.letter == 'X' || now.letter == 'Z' || now.start != start;
}

}  // namespace tutti::control
