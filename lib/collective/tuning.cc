#include "collective/tuning.h"

#include <unistd.h>

#include <algorithm>

namespace tutti::collective {

Tuning Tuning::choose(const topology::Topology& topology, std::size_t slice_bytes) {
  Tuning tuning;
  if (topology.node_count() > 1) {
    // Long messages for the network, and enough of them under way to hide the node's own work.
    tuning.slice_bytes = std::size_t{512} << 10;
    tuning.slots = 4;
  }
  // Whole cache lines of the widest element, so that every slice boundary falls between elements.
  if (slice_bytes != 0) tuning.slice_bytes = std::max<std::size_t>(slice_bytes / 64 * 64, 64);
  if (const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE); bytes > 0) {
    tuning.cache_bytes = static_cast<std::size_t>(bytes);
  }
  return tuning;
}

shm::NodeMemory::Layout Tuning::layout(const topology::Topology& topology) const {
  shm::NodeMemory::Layout layout;
  layout.local_size = topology.local_size();
  layout.slots = slots;
  layout.slot_bytes = slice_bytes * static_cast<std::size_t>(topology.lanes());
  layout.small_bytes = small_bytes;
  return layout;
}

}  // namespace tutti::collective
