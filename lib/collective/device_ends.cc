#include "collective/device_ends.h"

#include <thread>

namespace tutti::collective {
namespace {

/// The time that a drain sleeps between two looks.
constexpr auto a_look = std::chrono::microseconds(100);

}  // namespace

DeviceEnds::DeviceEnds(const cuda::Gpu& gpu)
    : events_(gpu), sides_{Copies(gpu, events_), Copies(gpu, events_)} {}

void DeviceEnds::Copies::follow(const cuda::Event* ready) {
  if (ready == nullptr || ready == waited) return;
  queue.stream().wait_for(*ready);
  waited = ready;
}

void DeviceEnds::start(const Batch& batch) {
  static_cast<void>(batch);
  for (Copies& copies : sides_) copies.waited = nullptr;
}

void DeviceEnds::copy_in(const Batch& batch, std::span<const PieceIn> pieces) {
  const std::size_t width = size_of(batch.dtype);
  Copies& copies = of(Side::in);
  for (const PieceIn& piece : pieces) {
    for_each_part_range(batch, piece.range, [&](const PartRange& part_range) {
      const TensorPart& part = batch.parts[part_range.part];
      std::byte* const to = piece.to + part_range.before * width;
      if (part.ins.empty()) {
        reduce::fill_identity(batch.dtype, batch.op, to, part_range.count);
        return;
      }
      const auto* const from = static_cast<const std::byte*>(part.ins.front());
      copies.follow(part.ready);
      copies.queue.stream().copy_to_host(to, from + (part_range.first - part.in_first) * width,
                                         part_range.count * width);
    });
  }
}

void DeviceEnds::copy_out(const Batch& batch, std::span<const PieceOut> pieces, bool) {
  const std::size_t width = size_of(batch.dtype);
  Copies& copies = of(Side::out);
  for (const PieceOut& piece : pieces) {
    for_each_part_range(batch, piece.range, [&](const PartRange& part_range) {
      const TensorPart& part = batch.parts[part_range.part];
      const std::byte* const from = piece.from + part_range.before * width;
      copies.follow(part.ready);
      for (void* const out : part.outs) {
        auto* const to = static_cast<std::byte*>(out);
        copies.queue.stream().copy_to_device(to + (part_range.first - part.out_first) * width, from,
                                             part_range.count * width);
      }
    });
  }
}

Ends::Mark DeviceEnds::mark(Side side) {
  return of(side).queue.mark();
}

bool DeviceEnds::is_over(Side side, Mark mark) {
  return of(side).queue.is_over(mark);
}

bool DeviceEnds::drain(base::Clock::time_point deadline) {
  const std::array<Mark, 2> ends{mark(Side::in), mark(Side::out)};
  for (;;) {
    if (is_over(Side::in, ends[0]) && is_over(Side::out, ends[1])) return true;
    if (base::Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(a_look);
  }
}

}  // namespace tutti::collective
