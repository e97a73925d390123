#pragma once
#include <cstdint>

namespace tutti::collective {

class DeviceGroup;

/// Finds the group by which the ranks of a node may move batches of tensors on their GPUs. The
/// ranks have a group only some time after the first such batch, or never, and not all at the same
/// moment. The thread that drives the engine calls it. Nothing blocks.
class Grouping {
 public:
  Grouping() = default;
  virtual ~Grouping() = default;
  Grouping(const Grouping&) = delete;
  Grouping& operator=(const Grouping&) = delete;

  /// Call this before this rank enters the gate of a batch with ends of its own. `sequence` counts
  /// all batches, and is equal on all ranks that stand at the same gate. If a gate is withdrawn,
  /// its number may be used again.
  virtual void enter(std::uint64_t sequence) = 0;
  /// Call this after that gate has closed. Returns the group if every rank of the node had it
  /// before the gate, and otherwise null. The answer is the same on all ranks of the node. A group
  /// outlives the batch.
  virtual DeviceGroup* find(std::uint64_t sequence) = 0;
};

}  // namespace tutti::collective
