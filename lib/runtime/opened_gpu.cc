#include "runtime/opened_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "cuda/kernel_arguments.h"
#include "cuda/place.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

constexpr auto end_of_group = std::chrono::seconds(2);

/// Whether a store of this process has a group or is making one. With two communicators, NCCL would
/// need the launches of both in one order on all ranks.
std::atomic<bool> group_is_taken{false};

[[noreturn]] void refuse(const TensorCall& call, const std::string& text) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", call.key.describe(), text),
              {.key = call.key});
}

/// Puts a thread of the program on the GPU for a moment: makes the GPU's context current, and
/// protects a graph that another thread captures.
struct Visit {
  explicit Visit(const cuda::Gpu& gpu) : context(gpu) {}
  cuda::ContextGuard context;
  cuda::RelaxedCapture capture;
};

/// The streams of the call's tensors, each once.
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

std::unique_ptr<NodeGroup> make_group(const std::shared_ptr<const cuda::Gpu>& gpu,
                                      const std::shared_ptr<base::Mapping>& mapping,
                                      const shm::NodeMemory::Layout& layout,
                                      const shm::GroupBoard& board, const OpenedGpu::Node& node,
                                      std::function<bool()> claim) {
  // One kernel sums the inputs of all ranks of the node.
  if (node.ranks.size() < 2 || node.ranks.size() > cuda::most_sources) return nullptr;
  const collective::DeviceGroup::Layout slots{static_cast<int>(node.ranks.size()), node.lanes,
                                              layout.slots, layout.slot_bytes};
  NodeGroup::Settings settings{
      .board = board, .memory = mapping, .gpu = gpu, .ranks = node.ranks, .limit = node.limit};
  settings.equip = [gpu, board, slots](cuda::NcclComm& communicator) {
    return std::make_shared<collective::DeviceGroup>(
        *gpu, communicator, slots, shm::LaunchLog(board.ring(), board.is_first()));
  };
  settings.claim = std::move(claim);
  return std::make_unique<NodeGroup>(std::move(settings));
}

}  // namespace

OpenedGpu::OpenedGpu(std::unique_ptr<cuda::Gpu> gpu, std::shared_ptr<base::Mapping> mapping,
                     const shm::NodeMemory& memory, const shm::GroupBoard& board, const Node& node)
    : mapping_(std::move(mapping)),
      gpu_(std::move(gpu)),
      pinned_inputs_(*gpu_, memory.all_staging_in()),
      pinned_results_(*gpu_, memory.all_staging_out()),
      events_(*gpu_),
      meeting_(*gpu_),
      ends_(*gpu_),
      node_group_(make_group(gpu_, mapping_, memory.layout(), board, node,
                             [this] { return claim_group(); })) {}

OpenedGpu::~OpenedGpu() {
  close_group(end_of_group);
}

void OpenedGpu::check(const TensorCall& call, const Tensor& tensor) const {
  if (tensor.count() == 0) return;
  if (tensor.device().index != gpu_->ordinal()) {
    refuse(call, fmt::format("the tensor is on {}, but this store uses gpu({}) ({}); a process "
                             "exchanges tensors of one GPU: make it the current device before the "
                             "first call",
                             name(tensor.device()), gpu_->ordinal(), gpu_->name().uuid));
  }
  if (const auto trouble = cuda::trouble_with(tensor, *gpu_)) {
    refuse(call, "the tensor " + *trouble);
  }
}

std::shared_ptr<const cuda::Event> OpenedGpu::record(const TensorCall& call) {
  const std::vector<CUstream_st*> streams = streams_of(call);
  if (streams.empty()) return nullptr;
  const Visit visit(*gpu_);
  for (CUstream_st* const stream : streams) {
    if (!cuda::is_capturing(stream)) continue;
    refuse(call,
           "the program captures the tensor's stream as a graph, whose later runs would not "
           "repeat the call; make the call outside of the capture");
  }
  cuda::EventPool::Pooled event = events_.take();
  event->record(streams.front());
  if (streams.size() == 1) return event;
  std::vector<cuda::EventPool::Pooled> others;
  for (std::size_t i = 1; i < streams.size(); ++i) {
    others.push_back(events_.take());
    others.back()->record(streams[i]);
  }
  const base::Lock lock(joining_);
  meeting_.wait_for(*event);
  for (const cuda::EventPool::Pooled& other : others) meeting_.wait_for(*other);
  event->record(meeting_.handle());
  return event;
}

void OpenedGpu::check(DeviceStream stream) const {
  const Visit visit(*gpu_);
  if (!cuda::is_capturing(stream.handle())) return;
  throw Error(ErrorCode::invalid_argument,
              "wait_on: the program captures the stream as a graph, and later runs of the graph "
              "would not wait for anything; call wait_on before or after the capture");
}

// The events may also stand for copies of later calls. Each copy waits only for work that was in
// the program's streams before this moment, so nothing waits for itself.
void OpenedGpu::hold_back(DeviceStream stream) const {
  const Visit visit(*gpu_);
  const cuda::EventPool::Pooled event = events_.take();
  const auto wait_behind = [&](const cuda::Stream& copies) {
    event->record(copies.handle());
    cuda::make_wait(stream.handle(), *event);
  };
  wait_behind(ends_.out_stream());
  const base::Lock lock(using_);
  if (group_ != nullptr) wait_behind(group_->outputs().stream());
}

void OpenedGpu::enter(std::uint64_t sequence) {
  if (node_group_) node_group_->enter(sequence);
}

collective::DeviceGroup* OpenedGpu::find_group(std::uint64_t sequence) {
  if (!node_group_ || !node_group_->look(sequence, base::Clock::now())) return nullptr;
  const base::Lock lock(using_);
  group_ = static_cast<collective::DeviceGroup*>(node_group_->equipment());
  return group_;
}

collective::DeviceGroup* OpenedGpu::group() const {
  const base::Lock lock(using_);
  return group_;
}

void OpenedGpu::check_group() const {
  const collective::DeviceGroup* const used = group();
  if (used == nullptr) return;
  if (const auto error = used->async_error()) {
    throw Error(ErrorCode::internal, fmt::format("gpu({}): {}", gpu_->ordinal(), *error));
  }
}

void OpenedGpu::abort_group(base::Clock::time_point deadline) {
  if (!node_group_) return;
  const auto limit = deadline - base::Clock::now();
  node_group_->abort(std::chrono::duration_cast<std::chrono::milliseconds>(limit));
}

bool OpenedGpu::drain(base::Clock::time_point deadline, bool failed) {
  // The second half of the time is for the work that the launches held up.
  const base::Clock::time_point halfway = deadline - (deadline - base::Clock::now()) / 2;
  // A lost rank or an error may have struck work for which this rank has no event.
  if (failed) abort_group(halfway);
  const Visit visit(*gpu_);
  collective::DeviceGroup* const used = group();
  if (used != nullptr && !used->drain(halfway)) {
    abort_group(halfway + (deadline - halfway) / 2);
    if (!used->drain(deadline)) return false;
  }
  return ends_.drain(deadline);
}

bool OpenedGpu::claim_group() {
  if (group_is_taken.exchange(true)) return false;
  has_claim_ = true;
  return true;
}

void OpenedGpu::close_group(std::chrono::milliseconds limit) {
  {
    const base::Lock lock(using_);
    group_ = nullptr;
  }
  if (!node_group_) return;
  const bool has_ended = node_group_->close(limit);
  // A communicator that has not ended keeps its part in NCCL's order of launches.
  if (std::exchange(has_claim_, false) && has_ended) group_is_taken = false;
}

}  // namespace tutti::runtime
