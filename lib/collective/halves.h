#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collective/batch.h"
#include "collective/chunks.h"
#include "collective/ends.h"
#include "collective/mover.h"
#include "collective/route.h"
#include "collective/tuning.h"
#include "observe/timeline.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Allreduces of two ranks that are alone on one node and have a processor each. Each rank sums one
/// half of a chunk in place, and has one slot in shared memory:
///
/// 1. Fill: it copies the other rank's half of its input into its own slot.
/// 2. Sum: it sums its own half over its input and the other rank's slot. The sum goes to its
/// outputs, and back into the same lines of that slot.
/// 3. Copy out: it copies the sum of the other half from its own slot to its outputs.
///
/// So each byte is summed once and passes between the processors once in each direction, and the
/// slot stays in their caches.
///
/// A slot is in use from a batch's fill to its copy out. Its owner makes both, so the slot is free
/// once every earlier batch is done on this rank. If it is free, the first chunk is filled before
/// the gate, and a word beside the gate's word says for which batch. That word names the gate. A
/// count would not do, because a gate that is withdrawn leaves its place in the count to the next
/// batch. If the slot is not free, and for later chunks, the slot is filled after the gate, and a
/// flag counts the chunks.
///
/// The sum of two operands is one addition, so its bits depend on neither the halves nor the
/// chunks. One thread at a time drives it. Nothing blocks.
class Halves final : public Mover {
 public:
  /// The references outlive this object. `scratch` is memory of this rank's own for a half.
  Halves(const topology::Topology& topology, const shm::NodeMemory& memory, const Site& site,
         const Tuning& tuning, std::span<std::byte> scratch);

  /// Records the stages in the timeline from now on. The timeline outlives this object.
  void record_in(observe::Timeline& timeline) { recorder_ = observe::StageRecorder(timeline); }

  /// Fills the slot before the batch's gate. Every earlier batch must be done on this rank.
  void fill_ahead(const Batch& batch);
  /// Starts on a batch whose gate has closed. It keeps its address until it is done, and nothing
  /// else is under way.
  void start(const Batch& batch);
  Progress step() override;
  /// Whether a step would move something now.
  bool may_step() const;
  bool drive_device() override { return false; }
  bool is_issued() const override { return false; }
  bool is_polling() const override { return false; }
  bool is_copying() const override { return false; }
  std::string describe() const override;

 private:
  enum class Next : std::uint8_t { fill, sum, copy_out };

  Chunks chunks_of(const Batch& batch) const;
  /// A rank's half of a chunk, in elements of the batch's vector.
  topology::Range half(const Chunks& chunks, std::uint64_t chunk, int local) const;
  topology::Range half(int local) const { return half(chunks_, chunk_, local); }
  std::byte* slot(int local) const { return memory_.half(local); }
  void fill(const Batch& batch, const Chunks& chunks, std::uint64_t chunk);
  bool is_filled() const;
  bool is_summed() const;
  void sum();
  void sum_together(topology::Range own);
  /// This rank's input. If it is not one tensor, it lies in scratch memory.
  const std::byte* own_input(const PartRange& part_range) const;
  void sum_part(const PartRange& part_range);
  void copy_out();
  std::string awaited(std::string_view what) const;

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  const Site& site_;
  const int me_;
  const int peer_;
  const std::size_t half_bytes_;
  const std::span<std::byte> scratch_;
  observe::StageRecorder recorder_;
  HostEnds ends_;

  const Batch* batch_ = nullptr;
  std::size_t width_ = 1;
  bool streaming_ = false;  ///< the outputs exceed the caches
  Chunks chunks_;
  std::uint64_t chunk_ = 0;
  Next next_ = Next::fill;
  std::vector<const void*> sources_;
};

}  // namespace tutti::collective
