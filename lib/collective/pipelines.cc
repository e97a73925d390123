#include "collective/pipelines.h"

namespace tutti::collective {
namespace {

/// The exchanges take one stream for each slot. The broadcasts take further streams, one for each
/// slot, because other ranks may still be in an exchange while a broadcast starts. All chunks of an
/// all_to_all take one stream, because each pair of ranks moves them in their order.
int first_of_broadcasts(const shm::NodeMemory::Layout& layout, int first_stream) {
  return first_stream + static_cast<int>(layout.slots);
}

int stream_of_all_to_alls(const shm::NodeMemory::Layout& layout, int first_stream) {
  return first_stream + 2 * static_cast<int>(layout.slots);
}

}  // namespace

int Pipelines::streams(const shm::NodeMemory::Layout& layout) {
  return 2 * static_cast<int>(layout.slots) + 1;
}

Pipelines::Pipelines(const topology::Topology& topology, const shm::NodeMemory& memory,
                     mpi::Communicator* communicator, const Site& site, const Tuning& tuning,
                     int first_stream)
    : memory_(memory),
      lane_(topology, memory.layout(), communicator, first_stream),
      allreduces_{Allreduce(topology, memory, lane_, site, tuning),
                  Allreduce(topology, memory, lane_, site, tuning)},
      group_allreduces_{GroupAllreduce(topology, memory, lane_, site),
                        GroupAllreduce(topology, memory, lane_, site)},
      broadcast_(topology, memory, communicator, tuning,
                 first_of_broadcasts(memory.layout(), first_stream)),
      all_to_all_(topology, memory, communicator, tuning,
                  stream_of_all_to_alls(memory.layout(), first_stream)) {}

void Pipelines::record_in(observe::Timeline& timeline) {
  for (Allreduce& allreduce : allreduces_) allreduce.record_in(timeline);
  for (GroupAllreduce& allreduce : group_allreduces_) allreduce.record_in(timeline);
  broadcast_.record_in(timeline);
  all_to_all_.record_in(timeline);
}

Mover& Pipelines::start_allreduce(const Batch& batch, std::uint64_t sequence) {
  Allreduce& allreduce = allreduces_[turn_++ % allreduces_at_once];
  allreduce.start(batch, sequence, chunks_);
  chunks_ = allreduce.end();
  return allreduce;
}

Mover& Pipelines::start_group_allreduce(const Batch& batch, DeviceGroup& group) {
  GroupAllreduce& allreduce = group_allreduces_[turn_++ % allreduces_at_once];
  allreduce.start(batch, group, chunks_);
  chunks_ = allreduce.end();
  return allreduce;
}

Mover& Pipelines::start_broadcast(const Batch& batch, std::uint64_t sequence) {
  broadcast_.start(batch, sequence, chunks_);
  chunks_ = broadcast_.end();
  return broadcast_;
}

Mover& Pipelines::start_all_to_all(const Batch& batch) {
  all_to_all_.start(batch, chunks_);
  chunks_ = all_to_all_.end();
  return all_to_all_;
}

}  // namespace tutti::collective
