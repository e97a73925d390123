#include "control/siblings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "control/pid_files.h"

namespace tutti::control {
namespace {

/// The environment that the process had when its program began. Each entry ends with a zero byte.
/// Returns nothing if this process may not read it.
std::optional<std::string> environment_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/environ", process), std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file && text.empty()) return std::nullopt;
  return text;
}

/// The value of a variable. Empty if it is not set.
std::string_view value_of(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const std::string_view entry = environment.substr(0, environment.find('\0'));
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) {
      return entry.substr(name.size() + 1);
    }
    environment.remove_prefix(std::min(entry.size() + 1, environment.size()));
  }
  return {};
}

std::optional<std::vector<pid_t>> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code failure;
  const auto threads =
      std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), failure);
  for (auto thread = begin(threads); !failure && thread != end(threads);
       thread.increment(failure)) {
    std::ifstream file(thread->path() / "children");
    if (!file) return std::nullopt;
    children.insert(children.end(), std::istream_iterator<pid_t>(file), {});
  }
  if (failure) return std::nullopt;
  return children;
}

/// Whether the process has the name of a program that starts ranks. A wrapper with any environment
/// may run between such a process and a rank. The children of a wrapper do not tell which other
/// ranks run.
bool is_starter(pid_t process) {
  constexpr std::array names{"mpirun",  "mpiexec", "orterun", "orted",
                             "prterun", "prte",    "prted",   "slurmstepd"};
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", process)), name);
  return std::ranges::find(names, name) != names.end();
}

std::optional<int> rank_in(std::string_view environment) {
  const std::string_view text = value_of(environment, "PMIX_RANK");
  int rank = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (text.empty() || read.ec != std::errc()) return std::nullopt;
  return rank;
}

}  // namespace

/// Finds the nearest process above this one that starts ranks.
Siblings::Siblings(const std::string& name_space) : name_space_(name_space) {
  pid_t above = ::getppid();
  while (above > 1 && !is_starter(above)) above = state_of(above).parent;
  if (above > 1) daemon_ = above;
}

std::optional<std::set<int>> Siblings::running() const {
  if (daemon_ == 0) return std::nullopt;
  const auto children = children_of(daemon_);
  if (!children) return std::nullopt;
  std::set<int> ranks;
  for (const pid_t child : *children) {
    const char state = state_of(child).letter;
    if (state == 'Z' || state == 'X') continue;
    const auto environment = environment_of(child);
    if (!environment) return std::nullopt;
    const std::string_view name_space = value_of(*environment, "PMIX_NAMESPACE");
    if (!name_space.empty() && name_space != name_space_) continue;
    // A program that changes its title overwrites its environment. Such a program may be any rank.
    const auto rank = rank_in(*environment);
    if (name_space.empty() || !rank) return std::nullopt;
    ranks.insert(*rank);
  }
  return ranks;
}

}  // namespace tutti::control
