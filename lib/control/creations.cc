#include "control/creations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

namespace tutti::control {

Creations::Creations(std::string folder, std::string job, int rank)
    : folder_(std::move(folder)), job_(std::move(job)), rank_(rank) {
  const base::Lock lock(mutex_);
  write();
}

std::string Creations::path_of(int rank) const {
  return fmt::format("{}/tutti-{}-{}.creates", folder_, job_, rank);
}

/// Writes another file and then renames it, because others may read the file at any time. If that
/// fails, removes the file, so that nobody reads outdated lines.
void Creations::write() {
  if (folder_.empty()) return;
  const std::string path = path_of(rank_);
  const std::string unfinished = path + ".new";
  std::ofstream file(unfinished);
  for (const Creation& one : mine_) {
    file << fmt::format("{} {} {}\n", int{one.given_up}, one.number, fmt::join(one.ranks, " "));
  }
  file.close();
  if (!file.fail() && std::rename(unfinished.c_str(), path.c_str()) == 0) return;
  std::remove(unfinished.c_str());
  std::remove(path.c_str());
}

void Creations::begin(const Creation& begun) {
  const base::Lock lock(mutex_);
  std::erase_if(mine_, [](const Creation& one) { return one.given_up; });
  mine_.push_back(begun);
  write();
}

void Creations::end(const Creation& ended, bool given_up) {
  const base::Lock lock(mutex_);
  const auto found = std::find(mine_.begin(), mine_.end(), ended);
  if (found == mine_.end()) return;
  if (given_up) {
    found->given_up = true;
  } else {
    mine_.erase(found);
  }
  write();
}

std::optional<std::vector<Creation>> Creations::of(int rank) const {
  std::ifstream file(path_of(rank));
  if (folder_.empty() || !file) return std::nullopt;
  std::vector<Creation> creations;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Creation read;
    if (!(words >> read.given_up >> read.number)) return std::nullopt;
    for (int one = 0; words >> one;) read.ranks.push_back(one);
    creations.push_back(std::move(read));
  }
  return creations;
}

}  // namespace tutti::control
