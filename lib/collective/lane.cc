#include "collective/lane.h"

#include "collective/chunks.h"

namespace tutti::collective {

Lane::Lane(const topology::Topology& topology, const shm::NodeMemory::Layout& layout,
           const mpi::Communicator* communicator, int first_stream) {
  if (topology.node_count() == 1 || topology.local_index() >= topology.lanes()) return;
  // Room for rounding: one granule of the widest dtype for the slice, and one for the chunk.
  constexpr std::size_t rounding = 2 * granule * sizeof(double);
  const auto lanes = static_cast<std::size_t>(topology.lanes());
  const auto ranks = static_cast<std::size_t>(topology.size);
  const auto columns = (topology.local_ranks().size() + lanes - 1) / lanes;
  const std::size_t chunk = layout.slot_bytes;
  const Exchange::Limits limits{chunk / lanes + rounding, chunk / ranks * columns + rounding};
  for (int slot = 0; slot < static_cast<int>(layout.slots); ++slot) {
    exchanges_.push_back(std::make_unique<Exchange>(
        *communicator, topology.kin(topology.local_index()),
        static_cast<std::size_t>(topology.node()), NodeSum(topology), limits, first_stream + slot));
  }
}

std::uint64_t Lane::bytes_sent() const {
  std::uint64_t sum = 0;
  for (const auto& exchange : exchanges_) sum += exchange->bytes_sent();
  return sum;
}

std::size_t Lane::buffer_bytes() const {
  std::size_t sum = 0;
  for (const auto& exchange : exchanges_) sum += exchange->buffer_bytes();
  return sum;
}

}  // namespace tutti::collective
