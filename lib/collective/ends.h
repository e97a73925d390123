#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "collective/batch.h"
#include "collective/staging_stores.h"
#include "topology/topology.h"

namespace tutti::collective {

/// The two ends of the pipeline on this rank: they copy between the tensors of a batch and the
/// node's staging memory. `HostEnds` copies at once. Ends of another kind only begin a copy, which
/// ends some time later. Until then nobody writes the memory that the copy reads, and nobody reads
/// the memory that it writes.
///
/// One thread at a time calls these functions. Nothing blocks.
class Ends {
 public:
  /// The direction of a copy: into staging memory, or out of it.
  enum class Side : std::uint8_t { in, out };
  /// Counts the copies of a side; see `mark`.
  using Mark = std::uint64_t;

  /// A range of a batch's vector, and the place of its elements in staging memory.
  struct PieceIn {
    topology::Range range;
    std::byte* to = nullptr;
  };
  struct PieceOut {
    topology::Range range;
    const std::byte* from = nullptr;
  };

  Ends() = default;
  virtual ~Ends() = default;
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  /// Copies of this batch may follow, beside those of the batches before it.
  virtual void start(const Batch& batch) = 0;
  /// Begins to copy from this rank's inputs, like `collective::copy_in`.
  virtual void copy_in(const Batch& batch, std::span<const PieceIn> pieces) = 0;
  /// Begins to copy to all outputs of this rank. `streaming` says that the outputs exceed the
  /// caches.
  virtual void copy_out(const Batch& batch, std::span<const PieceOut> pieces, bool streaming) = 0;
  /// Returns a mark for all copies of this side that have begun. Later marks are not smaller.
  virtual Mark mark(Side side) = 0;
  /// Whether all copies that the mark stands for are over.
  virtual bool is_over(Side side, Mark mark) = 0;
};

/// Ends in the memory of this process.
class HostEnds final : public Ends {
 public:
  explicit HostEnds(const StagingStores::Pacing& pacing) : stores_(pacing) {}

  void start(const Batch& batch) override { stores_.next_batch(batch.bytes_a_piece()); }
  void copy_in(const Batch& batch, std::span<const PieceIn> pieces) override;
  void copy_out(const Batch& batch, std::span<const PieceOut> pieces, bool streaming) override;
  Mark mark(Side) override { return 0; }
  bool is_over(Side, Mark) override { return true; }
  /// Whether the last copy in went around the caches. Other writes to staging memory do the same.
  bool is_around() const { return stores_.is_around(); }

 private:
  StagingStores stores_;
};

}  // namespace tutti::collective
