#include "collective/chunks.h"

#include <fmt/format.h>

namespace tutti::collective {

std::string late_ranks(const topology::Topology& topology, const shm::NodeMemory& memory,
                       shm::Flag shm::RankBlock::*flag, std::uint64_t wanted) {
  std::string text;
  for (int local = 0; local < memory.local_size(); ++local) {
    if ((memory.block(local).*flag).load() >= wanted) continue;
    const int rank = topology.local_ranks()[static_cast<std::size_t>(local)];
    text += fmt::format("{}{}", text.empty() ? "rank " : ", ", rank);
  }
  return text.empty() ? "nobody" : text;
}

}  // namespace tutti::collective
