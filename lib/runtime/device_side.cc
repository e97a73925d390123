#include "runtime/device_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/log.h"
#include "cuda/stream.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

/// How long the end of a store waits for copies that were under way when it failed.
constexpr auto longest_drain = std::chrono::seconds(2);

bool is_on_gpu(const TensorCall& call) {
  return call.signature.device == Device::Kind::gpu;
}

[[noreturn]] void refuse(const TensorCall& call, const std::string& text) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", call.key.describe(), text),
              {.key = call.key});
}

/// A thread of the program on the GPU for a moment: with its context, and without breaking a graph
/// that another thread captures.
struct Visit {
  explicit Visit(const cuda::Gpu& gpu) : context(gpu) {}
  cuda::ContextGuard context;
  cuda::RelaxedCapture capture;
};

const Tensor& any_tensor(const TensorCall& call) {
  return call.ins.empty() ? call.outs[0] : call.ins[0];
}

/// The program's current device, or else the tensor's.
int ordinal_for(const TensorCall& call) {
  return cuda::current_gpu().value_or(any_tensor(call).device().index);
}

}  // namespace

struct DeviceSide::Opened final : base::StreamOrder {
  Opened(std::unique_ptr<cuda::Gpu> gpu_, std::shared_ptr<base::Mapping> mapping_,
         const shm::NodeMemory& memory)
      : mapping(std::move(mapping_)),
        owned_gpu(std::move(gpu_)),
        gpu(*owned_gpu),
        pinned_inputs(gpu, memory.all_staging_in()),
        pinned_results(gpu, memory.all_staging_out()),
        events(gpu),
        meeting(gpu),
        ends(gpu) {}

  std::shared_ptr<base::Mapping> mapping;
  std::unique_ptr<cuda::Gpu> owned_gpu;
  const cuda::Gpu& gpu;
  cuda::Registration pinned_inputs;
  cuda::Registration pinned_results;
  mutable cuda::EventPool events;
  cuda::Stream meeting;  ///< brings several of the program's streams together
  base::Mutex joining;   ///< level 5
  collective::DeviceEnds ends;

  void check(const TensorCall& call, const Tensor& tensor) const;
  std::shared_ptr<const cuda::Event> record(const TensorCall& call) TUTTI_EXCLUDES(joining);

  void check(DeviceStream stream) const override;
  void hold_back(DeviceStream stream) const override;
};

void DeviceSide::Opened::check(const TensorCall& call, const Tensor& tensor) const {
  if (tensor.count() == 0) return;
  if (tensor.device().index != gpu.ordinal()) {
    refuse(call, fmt::format("the tensor is on {}, but this store uses gpu({}) ({}); a process "
                             "exchanges tensors of one GPU: make it the current device before the "
                             "first call",
                             name(tensor.device()), gpu.ordinal(), gpu.name().uuid));
  }
  const cuda::Location at = cuda::locate(tensor.data());
  if (at.kind == cuda::Location::Kind::host) {
    refuse(call, fmt::format("the tensor is said to be on {}, but its memory is the host's",
                             name(tensor.device())));
  }
  if (at.ordinal != gpu.ordinal()) {
    refuse(call, fmt::format("the tensor is said to be on {}, but its memory is on gpu({})",
                             name(tensor.device()), at.ordinal));
  }
  if (at.context != nullptr && at.context != gpu.context()) {
    refuse(call, fmt::format("the tensor's memory on {} belongs to a CUDA context of the "
                             "program's own; tutti takes memory of the primary context, which "
                             "CUDA's runtime uses",
                             name(tensor.device())));
  }
}

/// The streams that tensors of the call name, each once.
std::vector<CUstream_st*> streams_of(const TensorCall& call) {
  std::vector<CUstream_st*> streams;
  const auto add = [&](const Tensor& tensor) {
    CUstream_st* const stream = tensor.stream().handle();
    if (tensor.stream().is_none() || tensor.count() == 0) return;
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
      streams.push_back(stream);
    }
  };
  std::for_each(call.ins.begin(), call.ins.end(), add);
  std::for_each(call.outs.begin(), call.outs.end(), add);
  return streams;
}

/// An event behind all work that is in the call's streams now; null if it names none.
std::shared_ptr<const cuda::Event> DeviceSide::Opened::record(const TensorCall& call) {
  const std::vector<CUstream_st*> streams = streams_of(call);
  if (streams.empty()) return nullptr;
  const Visit visit(gpu);
  for (CUstream_st* const stream : streams) {
    if (!cuda::is_capturing(stream)) continue;
    refuse(call,
           "the program captures the tensor's stream as a graph, whose later runs would not "
           "repeat the call; make the call outside of the capture");
  }
  cuda::EventPool::Pooled event = events.take();
  event->record(streams.front());
  if (streams.size() == 1) return event;
  std::vector<cuda::EventPool::Pooled> others;
  for (std::size_t i = 1; i < streams.size(); ++i) {
    others.push_back(events.take());
    others.back()->record(streams[i]);
  }
  const base::Lock lock(joining);
  meeting.wait_for(*event);
  for (const cuda::EventPool::Pooled& other : others) meeting.wait_for(*other);
  event->record(meeting.handle());
  return event;
}

void DeviceSide::Opened::check(DeviceStream stream) const {
  const Visit visit(gpu);
  if (!cuda::is_capturing(stream.handle())) return;
  throw Error(ErrorCode::invalid_argument,
              "wait_on a stream that the program captures as a graph, whose later runs would not "
              "wait for anything; wait outside of the capture");
}

// The event may also stand for copies of later calls. Each of them waits for work that was in the
// program's streams before this moment, so nothing waits for itself.
void DeviceSide::Opened::hold_back(DeviceStream stream) const {
  const Visit visit(gpu);
  const cuda::EventPool::Pooled event = events.take();
  event->record(ends.out_stream().handle());
  cuda::make_wait(stream.handle(), *event);
}

DeviceSide::DeviceSide(Staging staging, const collective::Tuning& tuning, std::optional<int> gpu)
    : staging_(std::move(staging)), gpu_(gpu), without_gpu_(tuning.staging) {}

void DeviceSide::close() {
  std::shared_ptr<Opened> opened;
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
    if (drain(base::Clock::now() + longest_drain)) {
      opened_.store(nullptr, std::memory_order_release);
      return;
    }
    base::log().error("gpu({}) does not end its copies: their memory stays until the process ends",
                      opened->gpu.ordinal());
  } catch (const Error& error) {
    base::log().debug("the copies of a GPU that failed: {}", error.what());
    opened_.store(nullptr, std::memory_order_release);
    return;
  }
  opened_.store(nullptr, std::memory_order_release);
  // Never destroyed.
  static_cast<void>(new (std::nothrow) std::shared_ptr<Opened>(std::move(opened)));
}

void DeviceSide::open_memory() {
  if (memory_ != nullptr) return;
  const std::size_t bytes = staging_.layout.bytes();
  base::reserve(staging_.file, 0, bytes);
  mapping_ = staging_.map(staging_.file, bytes);
  const std::vector<std::span<std::byte>> no_arenas(
      static_cast<std::size_t>(staging_.layout.local_size));
  memory_ = std::make_unique<shm::NodeMemory>(mapping_->span(), staging_.layout,
                                              staging_.local_index, staging_.doorbells, no_arenas);
  reserved_bytes_ = bytes;
}

std::shared_ptr<DeviceSide::Opened> DeviceSide::opened_for(const TensorCall& call) {
  const base::Lock lock(opening_);
  if (closed_) throw Error(ErrorCode::aborted, "the store is closed", {.key = call.key});
  if (owned_ == nullptr) {
    // An ordinal that there is not is refused before memory is reserved.
    auto gpu = std::make_unique<cuda::Gpu>(gpu_ ? *gpu_ : ordinal_for(call));
    const cuda::RelaxedCapture capture;
    open_memory();
    owned_ = std::make_shared<Opened>(std::move(gpu), mapping_, *memory_);
    opened_.store(owned_.get(), std::memory_order_release);
  }
  return owned_;
}

bool DeviceSide::concerns(std::span<const TensorCall> calls) {
  return std::any_of(calls.begin(), calls.end(), is_on_gpu);
}

std::shared_ptr<const base::StreamOrder> DeviceSide::admit(std::span<TensorCall> calls) {
  std::shared_ptr<Opened> opened;
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
  Opened* const opened = opened_.load(std::memory_order_acquire);
  if (opened == nullptr) return without_gpu_;
  return opened->ends;
}

void DeviceSide::adopt_thread() {
  Opened* const opened = opened_.load(std::memory_order_acquire);
  if (opened == nullptr) return;
  cuda::set_current(opened->gpu);
  cuda::relax_capture_mode();
}

bool DeviceSide::drain(base::Clock::time_point deadline) {
  Opened* const opened = opened_.load(std::memory_order_acquire);
  if (opened == nullptr) return true;
  const Visit visit(opened->gpu);
  return opened->ends.drain(deadline);
}

}  // namespace tutti::runtime
