#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "collective/batch.h"
#include "collective/device_queue.h"
#include "collective/ends.h"
#include "cuda/event.h"
#include "cuda/gpu.h"

namespace tutti::collective {

/// Ends in the memory of one GPU, which makes the copies by itself: one stream copies in, another
/// one copies out. The first copy of a tensor waits, in its stream, for the tensor's event
/// (`TensorPart::ready`), so that it holds up no copy before it. Copies run beside the host only if
/// staging memory is pinned.
///
/// A rank without data has no tensor on the GPU. The host writes the operation's identity for it.
///
/// One thread at a time calls these functions, with the GPU's context current. They throw
/// `internal` if CUDA reports an error.
class DeviceEnds final : public Ends {
 public:
  /// The GPU outlives this object.
  explicit DeviceEnds(const cuda::Gpu& gpu);
  /// The owner has called `drain`, or keeps the memory that the copies use.
  ~DeviceEnds() override = default;

  void start(const Batch& batch) override;
  void copy_in(const Batch& batch, std::span<const PieceIn> pieces) override;
  void copy_out(const Batch& batch, std::span<const PieceOut> pieces, bool streaming) override;
  Mark mark(Side side) override;
  bool is_over(Side side, Mark mark) override;

  /// The stream that makes the copies out. Work that is enqueued in it waits for all copies that
  /// have begun.
  const cuda::Stream& out_stream() const { return sides_[1].queue.stream(); }
  /// Blocks until no copy is under way, or until the deadline. Returns true if none is.
  bool drain(base::Clock::time_point deadline);

 private:
  struct Copies {
    Copies(const cuda::Gpu& gpu, cuda::EventPool& events) : queue(gpu, events) {}

    DeviceQueue queue;
    const cuda::Event* waited = nullptr;  ///< the queue waited for this one last; batches may share
                                          ///< it, and it is recorded anew for a later one
    void follow(const cuda::Event* ready);
  };
  Copies& of(Side side) { return sides_[static_cast<std::size_t>(side)]; }

  cuda::EventPool events_;
  std::array<Copies, 2> sides_;  ///< by `Side`
};

}  // namespace tutti::collective
