#pragma once
#include <cstdint>

namespace tutti::collective {

class DeviceGroup;

/// Finds the group by which the ranks of a node may move batches of tensors on their GPUs. They
/// have one only some time after the first such batch, or never, and not all at the same moment.
/// The thread that drives the engine calls it; nothing blocks.
class Grouping {
 public:
  Grouping() = default;
  virtual ~Grouping() = default;
  Grouping(const Grouping&) = delete;
  Grouping& operator=(const Grouping&) = delete;

  /// Before this rank enters the gate of a batch with ends of its own. `sequence` counts all
  /// batches, equally on all ranks that stand at the same gate. A gate may be withdrawn, and its
  /// number used again.
  virtual void enter(std::uint64_t sequence) = 0;
  /// After that gate has closed: the group, if every rank of the node had it before the gate; else
  /// null. The answer is the same on all ranks of the node. A group outlives the batch.
  virtual DeviceGroup* find(std::uint64_t sequence) = 0;
};

}  // namespace tutti::collective
