#include "collective/tuning.h"

#include <algorithm>

#include "base/cache_line.h"
#include "base/pages.h"
#include "collective/chunks.h"
#include "collective/piggyback.h"
#include "mpi/communicator.h"

namespace tutti::collective {
namespace {

/// Slices are whole cache lines, so that their boundaries fall between elements of any dtype.
std::size_t whole_lines(std::size_t bytes) {
  return bytes / base::cache_line * base::cache_line;
}

/// The size of a chunk of a tensor on a GPU. A copy to or from the device takes some ten
/// microseconds in addition to the time for its bytes. The host sums smaller chunks faster, because
/// they are still in its caches. With 2 ranks on an H200, chunks of 2 MiB moved 1.5 times as fast
/// as those of 4 MiB.
constexpr std::size_t device_chunk = std::size_t{2} << 20;

/// The most bytes that staging buffers may take on the fullest node.
constexpr std::size_t most_staging = std::size_t{128} << 20;

/// Half of a chunk that two ranks sum in halves. The slots for it stay in the processors' own
/// caches.
constexpr std::size_t half_inside = std::size_t{128} << 10;

/// The least batch that two ranks with a processor each sum in halves. Below it the second meeting
/// costs as much as the shorter sum saves.
constexpr std::size_t least_by_halves = std::size_t{8} << 10;

std::size_t largest_node(const topology::Topology& topology) {
  std::size_t most = 0;
  for (const std::vector<int>& ranks : topology.nodes) most = std::max(most, ranks.size());
  return most;
}

/// The slice between nodes. It is long enough for the network, and so short that several slices of
/// a 1 MB tensor are under way at once. It reached 91 to 101 % of the links' bound on 2 to 8 hosts;
/// 512 KiB reached 86 to 97 %. If there are few nodes, each block of a slice is a whole number of
/// messages.
std::size_t slice_between(int nodes) {
  constexpr std::size_t about = std::size_t{256} << 10;
  const std::size_t round = mpi::message_bytes * static_cast<std::size_t>(nodes);
  return round > about ? about : about / round * round;
}

/// The slice inside a node. It is so small that staging buffers stay in the processors' private
/// caches. On two processors, from 16 MiB on, 4 ranks took 7 % less time with 64 KiB than with 128,
/// and 10 % more with 16. 8 ranks took 5 % less with 32.
std::size_t slice_inside(std::size_t slices) {
  constexpr std::size_t own_caches = std::size_t{2} << 20;
  constexpr std::size_t least = std::size_t{32} << 10;
  return std::clamp(own_caches / slices / base::page_bytes() * base::page_bytes(), least,
                    Tuning().slice_bytes);
}

/// The eager limit on one node. Up to this size, to save one wake-up is worth more than to share
/// the sum, so every rank sums everything. If more ranks run at once, the limit is lower, because
/// that work takes them longer.
std::size_t eager_bytes_for(int running) {
  constexpr std::size_t at_most = std::size_t{256} << 10;
  constexpr std::size_t crowd = 4;
  const auto ranks = static_cast<std::size_t>(running);
  return ranks <= crowd ? at_most : whole_lines(at_most * 2 / ranks);
}

/// The eager limit between nodes. Piggybacking takes fewer messages than an exchange. But its
/// links carry more bytes: 1.3 times as many on three nodes, 1.5 times as many on four. Four nodes
/// at 1 Gbit/s took 0.40 ms with it and 0.71 ms without it for 32 KiB, and 0.65 ms with it and
/// 0.53 ms without it for 48 KiB. Two nodes send as many bytes either way. Eight nodes would
/// exchange so many messages that piggybacking is always faster.
std::size_t eager_bytes_between(int nodes) {
  constexpr std::size_t few = std::size_t{40} << 10;
  const std::size_t message =
      Piggyback::most_block(Piggyback::Kind::passed_on, static_cast<std::size_t>(nodes));
  return nodes == 3 || nodes == 4 ? std::min(few, message) : message;
}

}  // namespace

bool takes_halves(const topology::Topology& topology) {
  return topology.node_count() == 1 && topology.local_size() == 2;
}

Tuning Tuning::choose(const topology::Topology& topology, std::size_t slice_bytes,
                      const Machine& machine) {
  Tuning tuning;
  tuning.cache_bytes = machine.cache_bytes;
  const bool several = topology.node_count() > 1;
  const std::size_t slices = std::max<std::size_t>(
      1, largest_node(topology) * tuning.slots * static_cast<std::size_t>(topology.lanes()));
  tuning.slice_bytes = several ? slice_between(topology.node_count()) : slice_inside(slices);
  // If each rank has a processor, all ranks sum at the same time, each for itself.
  tuning.sums_together = !several && machine.crowded(topology);
  tuning.eager_bytes = several
                           ? eager_bytes_between(topology.node_count())
                           : eager_bytes_for(std::min(topology.local_size(), machine.processors));
  if (takes_halves(topology)) {
    tuning.halves_from = machine.crowded(topology) ? tuning.eager_bytes + 1 : least_by_halves;
  }
  tuning.slice_bytes = std::min(tuning.slice_bytes, most_staging / slices);
  if (slice_bytes != 0) tuning.slice_bytes = slice_bytes;
  // A chunk holds all lanes' slices. If the batch is sharded, a chunk needs an element of every
  // rank's shard. If it is an all_to_all, half a chunk needs two elements of every rank's share.
  const auto ranks = static_cast<std::size_t>(topology.size);
  const std::size_t elements = 4 * ranks / static_cast<std::size_t>(topology.lanes()) + 1;
  const std::size_t least = whole_lines(elements * size_of(DType::b128) + base::cache_line - 1);
  tuning.slice_bytes = std::max(whole_lines(tuning.slice_bytes), least);
  if (takes_halves(topology)) tuning.half_bytes = std::min(half_inside, tuning.slice_bytes);
  const std::size_t share = device_chunk / static_cast<std::size_t>(topology.lanes());
  tuning.device_slice_bytes =
      slice_bytes == 0 ? std::max(whole_lines(share), tuning.slice_bytes) : tuning.slice_bytes;
  return tuning;
}

shm::NodeMemory::Layout Tuning::layout(const topology::Topology& topology) const {
  shm::NodeMemory::Layout layout;
  layout.local_size = topology.local_size();
  layout.slots = slots;
  layout.slot_bytes = slice_bytes * static_cast<std::size_t>(topology.lanes());
  layout.eager_bytes = eager_bytes;
  layout.small_results = sums_together;
  // A half is rounded up to whole granules.
  constexpr std::size_t rounding = granule * size_of(DType::f64);
  if (takes_halves(topology) && half_bytes > 0) layout.half_bytes = half_bytes + rounding;
  return layout;
}

shm::NodeMemory::Layout Tuning::device_layout(const topology::Topology& topology) const {
  shm::NodeMemory::Layout layout;
  layout.local_size = topology.local_size();
  layout.slots = device_slots;
  layout.slot_bytes = device_slice_bytes * static_cast<std::size_t>(topology.lanes());
  return layout;
}

}  // namespace tutti::collective
