#include "collective/device_group.h"

#include <algorithm>
#include <array>
#include <thread>

#include "collective/chunks.h"

namespace tutti::collective {
namespace {

/// The time that a drain sleeps between two looks.
constexpr auto a_look_at_group = std::chrono::microseconds(100);

/// The most bytes of a rank's slice of a chunk, in whole lines of the GPU's caches.
std::size_t slice_bytes(const DeviceGroup::Layout& layout) {
  // Room for rounding: one granule of the widest dtype for the slice, and one for the chunk.
  constexpr std::size_t rounding = 2 * granule * sizeof(double);
  constexpr std::size_t line = 256;
  const std::size_t bytes = layout.slot_bytes / static_cast<std::size_t>(layout.lanes) + rounding;
  return (bytes + line - 1) / line * line;
}

}  // namespace

DeviceGroup::DeviceGroup(const cuda::Gpu& gpu, cuda::NcclComm& communicator, const Layout& layout,
                         shm::LaunchLog log)
    : communicator_(communicator),
      kernels_(gpu),
      events_(gpu),
      launches_(gpu, events_),
      sums_(gpu, events_),
      down_(gpu, events_),
      up_(gpu, events_),
      outputs_(gpu, events_),
      slots_(layout.slots),
      ranks_(static_cast<std::size_t>(layout.ranks)),
      place_bytes_(slice_bytes(layout)),
      memory_(gpu, slots_ * ranks_ * place_bytes_),
      log_(log) {}

void DeviceGroup::launch(std::span<const Send> sends, std::span<const Receive> receives) {
  CUstream_st* const stream = launches_.stream().handle();
  communicator_.grouped([&] {
    for (const Send& send : sends) communicator_.send(send.data, send.bytes, send.to, stream);
    for (const Receive& receive : receives) {
      communicator_.receive(receive.data, receive.bytes, receive.from, stream);
    }
  });
}

void DeviceGroup::reduce(const reduce::Kernel& kernel, std::span<const void* const> sources,
                         void* to, std::size_t count) const {
  kernels_.reduce(sums_.stream().handle(), kernel, sources, to, count);
}

std::byte* DeviceGroup::place(std::uint64_t chunk, int local) const {
  const std::size_t slot = chunk % slots_;
  return static_cast<std::byte*>(memory_.data()) +
         (slot * ranks_ + static_cast<std::size_t>(local)) * place_bytes_;
}

bool DeviceGroup::drain(base::Clock::time_point deadline) {
  const std::array<DeviceQueue*, 5> queues{&launches_, &sums_, &down_, &up_, &outputs_};
  for (DeviceQueue* const queue : queues) queue->mark();
  for (;;) {
    const auto is_over = [](DeviceQueue* queue) { return queue->is_over(); };
    if (std::all_of(queues.begin(), queues.end(), is_over)) return true;
    if (base::Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(a_look_at_group);
  }
}

}  // namespace tutti::collective
