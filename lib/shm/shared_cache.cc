#include "shm/shared_cache.h"

#include <hwloc.h>

#include <algorithm>
#include <memory>

namespace tutti::shm {
namespace {

constexpr std::size_t common = std::size_t{32} << 20;
/// The most bytes for each processor. Two processors that see 480 MiB took 17 % less time for 64
/// MiB when they counted on this much each. With half of it 2 ranks took 17 % longer for 16 MiB.
constexpr std::size_t most_each = std::size_t{32} << 20;

struct Destroy {
  void operator()(hwloc_topology* machine) const { hwloc_topology_destroy(machine); }
};

// This does not use sysconf, because glibc multiplies one cache by the largest number that the
// processor's maker could have built in.
std::size_t look() {
  hwloc_topology* raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return common;
  const std::unique_ptr<hwloc_topology, Destroy> machine(raw);
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_cache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(raw) != 0) return common;
  for (unsigned level = 4; level >= 2; --level) {
    const int depth = hwloc_get_cache_type_depth(raw, level, HWLOC_OBJ_CACHE_UNIFIED);
    if (depth < 0) continue;
    const hwloc_obj* const cache = hwloc_get_obj_by_depth(raw, depth, 0);
    const int processors = hwloc_bitmap_weight(cache->cpuset);
    const auto bytes = cache->attr->cache.size;
    if (bytes > 0) return usable_cache(bytes, static_cast<std::size_t>(std::max(processors, 1)));
  }
  return common;
}

}  // namespace

std::size_t usable_cache(std::size_t cache_bytes, std::size_t processors) {
  return std::min(cache_bytes, most_each * processors);
}

std::size_t shared_cache_bytes() {
  static const std::size_t bytes = look();
  return bytes;
}

}  // namespace tutti::shm
