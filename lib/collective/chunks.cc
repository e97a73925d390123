#include "collective/chunks.h"

#include <fmt/format.h>

namespace tutti::collective {

bool is_slot_free(const shm::NodeMemory& memory, shm::Flag shm::RankBlock::*last_use,
                  std::uint64_t number) {
  const std::size_t slots = memory.layout().slots;
  return number < slots || memory.least(last_use) > number - slots;
}

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

std::string late_chunk(const topology::Topology& topology, const shm::NodeMemory& memory,
                       shm::Flag shm::RankBlock::*flag, ChunkName chunk, std::string_view what) {
  const std::uint64_t wanted = chunk.number + 1;
  if (memory.least(flag) >= wanted) return {};
  return fmt::format("; chunk {} {} by {}", chunk.index, what,
                     late_ranks(topology, memory, flag, wanted));
}

}  // namespace tutti::collective
