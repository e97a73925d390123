#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "collective/all_to_all.h"
#include "collective/allreduce.h"
#include "collective/broadcast.h"
#include "collective/group_allreduce.h"
#include "collective/lane.h"
#include "collective/route.h"
#include "collective/tuning.h"
#include "observe/timeline.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// The pipelines through one staging memory: two for allreduces and their halves, one for
/// broadcasts, and one for all_to_alls. They share the memory's slots, and they count its chunks
/// together. One thread at a time drives them. Nothing blocks.
class Pipelines {
 public:
  /// The number of allreduces that may move at once.
  static constexpr std::size_t allreduces_at_once = 2;

  /// The references outlive this object. `communicator` is null on one node. The transfers between
  /// nodes take `streams(memory.layout())` streams of the communicator, from `first_stream` on. No
  /// other pipelines take these streams.
  Pipelines(const topology::Topology& topology, const shm::NodeMemory& memory,
            mpi::Communicator* communicator, const Site& site, const Tuning& tuning,
            int first_stream);
  static int streams(const shm::NodeMemory::Layout& layout);

  /// Records the stages in the timeline from now on. The timeline outlives this object.
  void record_in(observe::Timeline& timeline);

  const shm::NodeMemory& memory() const { return memory_; }
  /// Starts on a batch whose way is the pipeline. The two pipelines take turns.
  Mover& start_allreduce(const Batch& batch, std::uint64_t sequence);
  /// Starts on a batch whose way is the group.
  Mover& start_group_allreduce(const Batch& batch, DeviceGroup& group);
  /// Starts on a broadcast. No other broadcast may be under way.
  Mover& start_broadcast(const Batch& batch, std::uint64_t sequence);
  /// Starts on an all_to_all. Nothing else may be under way.
  Mover& start_all_to_all(const Batch& batch);

  /// The bytes that this rank has sent between nodes.
  std::uint64_t bytes_sent() const {
    return lane_.bytes_sent() + broadcast_.bytes_sent() + all_to_all_.bytes_sent();
  }
  /// The bytes that it holds for transfers between nodes.
  std::size_t buffer_bytes() const { return lane_.buffer_bytes(); }

 private:
  const shm::NodeMemory& memory_;
  const Lane lane_;
  std::array<Allreduce, allreduces_at_once> allreduces_;
  std::array<GroupAllreduce, allreduces_at_once> group_allreduces_;
  Broadcast broadcast_;
  AllToAll all_to_all_;
  std::uint64_t chunks_ = 0;  ///< the chunks of all batches that have started
  std::size_t turn_ = 0;      ///< the one of each pair that takes the next allreduce
};

}  // namespace tutti::collective
