#include "control/siblings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "control/pid_files.h"

namespace tutti::control {
namespace {

/// As it was when the program began, each entry ending with a zero byte. Nothing: it may not be
/// read.
std::optional<std::string> environment_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/environ", process), std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file && text.empty()) return std::nullopt;
  return text;
}

/// Empty: it is not set.
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
  if (failure) return std::nullopt;
  for (const auto& thread : threads) {
    std::ifstream file(thread.path() / "children");
    if (!file) return std::nullopt;
    children.insert(children.end(), std::istream_iterator<pid_t>(file), {});
  }
  return children;
}

}  // namespace

/// The nearest process above this one that is not of the job.
Siblings::Siblings(const std::string& name_space) : name_space_(name_space) {
  pid_t above = ::getppid();
  for (; above > 1; above = state_of(above).parent) {
    const auto environment = environment_of(above);
    if (!environment) return;
    if (value_of(*environment, "PMIX_NAMESPACE") != name_space_) break;
  }
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
    if (value_of(*environment, "PMIX_NAMESPACE") != name_space_) continue;
    const std::string_view text = value_of(*environment, "PMIX_RANK");
    int rank = -1;
    std::from_chars(text.data(), text.data() + text.size(), rank);
    ranks.insert(rank);
  }
  return ranks;
}

}  // namespace tutti::control
