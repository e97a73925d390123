#include "runtime/device_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/keep.h"
#include "base/log.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

/// The time for which the end of a store waits for copies that were under way when the store
/// failed.
constexpr auto longest_drain = std::chrono::seconds(2);

bool is_on_gpu(const TensorCall& call) {
  return call.signature.device == Device::Kind::gpu;
}

const Tensor& any_tensor(const TensorCall& call) {
  return call.ins.empty() ? call.outs[0] : call.ins[0];
}

/// The program's current device if there is one, and otherwise the tensor's.
int ordinal_for(const TensorCall& call) {
  return cuda::current_gpu().value_or(any_tensor(call).device().index);
}

}  // namespace

std::size_t DeviceSide::Staging::bytes(const shm::NodeMemory::Layout& layout) {
  return layout.bytes() + shm::GroupBoard::bytes(layout.local_size, layout.slots);
}

DeviceSide::DeviceSide(Staging staging, const collective::Tuning& tuning, std::optional<int> gpu)
    : staging_(std::move(staging)), gpu_(gpu), without_gpu_(tuning.staging) {}

void DeviceSide::close() {
  std::shared_ptr<OpenedGpu> opened;
  std::unique_ptr<shm::NodeMemory> memory;
  std::shared_ptr<base::Mapping> mapping;
  {
    const base::Lock lock(opening_);
    closed_ = true;
    opened = std::move(owned_);
    memory = std::move(memory_);
    mapping = std::move(mapping_);
  }
  if (opened == nullptr) return;
  try {
    if (drain(base::Clock::now() + longest_drain, false)) {
      opened_.store(nullptr, std::memory_order_release);
      opened->close_group(longest_drain);
      return;
    }
    base::log().error("gpu({}) does not end its copies: their memory stays until the process ends",
                      opened->gpu().ordinal());
  } catch (const std::exception& error) {
    base::log().debug("the copies of a GPU that failed: {}", error.what());
    opened_.store(nullptr, std::memory_order_release);
    return;
  }
  opened_.store(nullptr, std::memory_order_release);
  base::keep_for_good(std::move(opened));
}

void DeviceSide::open_memory() {
  if (memory_ != nullptr) return;
  const std::size_t bytes = Staging::bytes(staging_.layout);
  base::reserve(staging_.file, 0, bytes);
  mapping_ = staging_.map(staging_.file, bytes);
  const std::vector<std::span<std::byte>> no_arenas(
      static_cast<std::size_t>(staging_.layout.local_size));
  memory_ = std::make_unique<shm::NodeMemory>(mapping_->span(), staging_.layout,
                                              staging_.local_index, staging_.doorbells, no_arenas);
  reserved_bytes_ = bytes;
}

std::shared_ptr<OpenedGpu> DeviceSide::opened_for(const TensorCall& call) {
  const base::Lock lock(opening_);
  if (closed_) throw Error(ErrorCode::aborted, "the store is closed", {.key = call.key});
  if (owned_ == nullptr) {
    // The GPU is opened before memory is reserved, so that an ordinal without a GPU is refused
    // first.
    auto gpu = std::make_unique<cuda::Gpu>(gpu_ ? *gpu_ : ordinal_for(call));
    const cuda::RelaxedCapture capture;
    open_memory();
    const shm::NodeMemory::Layout& layout = staging_.layout;
    const shm::GroupBoard board(mapping_->span().subspan(layout.bytes()), layout.local_size,
                                staging_.local_index, layout.slots);
    owned_ = std::make_shared<OpenedGpu>(std::move(gpu), mapping_, *memory_, board, staging_.node);
    opened_.store(owned_.get(), std::memory_order_release);
  }
  return owned_;
}

bool DeviceSide::concerns(std::span<const TensorCall> calls) {
  return std::any_of(calls.begin(), calls.end(), is_on_gpu);
}

std::shared_ptr<const base::StreamOrder> DeviceSide::admit(std::span<TensorCall> calls) {
  std::shared_ptr<OpenedGpu> opened;
  for (TensorCall& call : calls) {
    if (!is_on_gpu(call)) continue;
    try {
      if (!opened) opened = opened_for(call);
      for (const Tensor& tensor : call.ins) opened->check(call, tensor);
      for (const Tensor& tensor : call.outs) opened->check(call, tensor);
      call.ready = opened->record(call);
    } catch (const Error& error) {
      if (error.key() != nullptr) throw;
      throw Error(error.code(),
                  fmt::format("key {}, a tensor on {}: {}", call.key.describe(),
                              name(any_tensor(call).device()), error.what()),
                  {.key = call.key});
    }
  }
  return opened;
}

std::size_t DeviceSide::buffer_bytes() const {
  const auto ranks = static_cast<std::size_t>(staging_.layout.local_size);
  return (reserved_bytes_ + ranks - 1) / ranks;
}

const shm::NodeMemory& DeviceSide::memory() {
  const base::Lock lock(opening_);
  open_memory();
  return *memory_;
}

collective::Ends& DeviceSide::ends() {
  OpenedGpu* const opened = opened_.load(std::memory_order_acquire);
  if (opened == nullptr) return without_gpu_;
  return opened->ends();
}

void DeviceSide::adopt_thread() {
  OpenedGpu* const opened = opened_.load(std::memory_order_acquire);
  if (opened == nullptr) return;
  cuda::set_current(opened->gpu());
  cuda::relax_capture_mode();
}

void DeviceSide::enter(std::uint64_t sequence) {
  OpenedGpu* const opened = opened_.load(std::memory_order_acquire);
  if (opened != nullptr) opened->enter(sequence);
}

collective::DeviceGroup* DeviceSide::find(std::uint64_t sequence) {
  OpenedGpu* const opened = opened_.load(std::memory_order_acquire);
  return opened == nullptr ? nullptr : opened->find_group(sequence);
}

void DeviceSide::check_group() const {
  const OpenedGpu* const opened = opened_.load(std::memory_order_acquire);
  if (opened != nullptr) opened->check_group();
}

bool DeviceSide::drain(base::Clock::time_point deadline, bool failed) {
  OpenedGpu* const opened = opened_.load(std::memory_order_acquire);
  if (opened == nullptr) return true;
  return opened->drain(deadline, failed);
}

}  // namespace tutti::runtime
