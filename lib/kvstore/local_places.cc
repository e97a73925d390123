#include "kvstore/local_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "cuda/place.h"
#include "kvstore/checks.h"
#include "kvstore/key_calls.h"

namespace tutti {
namespace {

/// Makes all later work of the GPU wait for the work that is now in the program's stream.
void follow(LocalGpu& gpu, DeviceStream stream) {
  const auto event = gpu.events.take();
  event->record(stream.handle());
  gpu.stream.wait_for(*event);
}

/// Follows each stream once. A call has few streams.
void follow_all(LocalGpu& gpu, const std::vector<Tensor>& tensors, std::string_view call) {
  std::vector<DeviceStream> streams;
  for (const Tensor& tensor : tensors) {
    const DeviceStream stream = tensor.stream();
    if (stream.is_none() || std::ranges::count(streams, stream) > 0) continue;
    if (cuda::is_capturing(stream.handle())) throw capture_error(call);
    streams.push_back(stream);
  }
  for (const DeviceStream stream : streams) follow(gpu, stream);
}

/// Returns words such as "push of key 'w' and 2 more".
base::Completion::What words_for(const MethodCall& call, const Key& key) {
  return [called = name(call), key, more = call.keys.size() - 1] {
    const std::string first = fmt::format("{} of key {}", called, key.describe());
    return more == 0 ? first : fmt::format("{} and {} more", first, more);
  };
}

}  // namespace

LocalPlaces::LocalPlaces(const Options& options)
    : chosen_(options.gpu), limit_(options.key_timeout) {
  if (chosen_) take_gpu(*chosen_);
}

void LocalPlaces::take_gpu(int ordinal) {
  const cuda::RelaxedCapture relaxed;
  gpu_ = not_in_child(new GpuMemory(not_in_child(new LocalGpu(ordinal)), limit_));
  calls_ = not_in_child(new GpuCalls(gpu_, limit_));
}

GpuMemory& LocalPlaces::gpu_for(const Tensor& tensor) {
  const int wanted = tensor.device().index;
  const int ordinal =
      gpu_ != nullptr ? gpu_->gpu().gpu.ordinal() : cuda::current_gpu().value_or(wanted);
  if (ordinal != wanted) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("a tensor is on gpu({}), and this store works on gpu({}), {}; a process "
                    "uses one GPU, which the option gpu (TUTTI_GPU) names",
                    wanted, ordinal,
                    chosen_ ? "which the option gpu names"
                            : "whose context was current at its first GPU tensor"));
  }
  if (gpu_ == nullptr) take_gpu(ordinal);
  return *gpu_;
}

Tensor LocalPlaces::copy_of(const Tensor& tensor) {
  GpuMemory& memory = gpu_for(tensor);
  const cuda::ContextGuard context(memory.gpu().gpu);
  const cuda::RelaxedCapture relaxed;
  follow_all(memory.gpu(), {tensor}, "a call");
  Tensor copy = memory.own(tensor.shape(), tensor.dtype());
  memory.copy(tensor, copy);
  try {
    memory.wait();
  } catch (const Error&) {
    calls_->keep({tensor, copy});
    throw;
  }
  return copy;
}

LocalPlaces::Call::Call(LocalPlaces& places, const MethodCall& call)
    : places_(places), call_(call) {
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    if (!call.ins.empty()) collect(call.keys[i], call.ins[i]);
    if (!call.outs.empty()) collect(call.keys[i], call.outs[i]);
  }
  if (kept_.empty()) return;
  enter();
  follow_all(places.gpu_->gpu(), kept_, name(call));
}

void LocalPlaces::Call::enter() {
  context_.emplace(places_.gpu_->gpu().gpu);
  relaxed_.emplace();
}

void LocalPlaces::Call::keep(const Tensor& replaced) {
  if (!is_on_gpu(replaced)) return;
  if (kept_.empty()) {
    key_ = &call_.keys.front();
    enter();
  }
  kept_.push_back(replaced);
}

void LocalPlaces::Call::collect(const Key& key, const Values& values) {
  for (const Tensor& tensor : values) {
    if (!is_on_gpu(tensor)) continue;
    if (key_ == nullptr) key_ = &key;
    try {
      const GpuMemory& memory = places_.gpu_for(tensor);
      if (const auto trouble = cuda::trouble_with(tensor, memory.gpu().gpu)) {
        throw Error(ErrorCode::invalid_argument, "a tensor " + *trouble);
      }
    } catch (const Error& error) {
      throw named(error, key);
    }
    kept_.push_back(tensor);
  }
}

Error LocalPlaces::Call::named(const Error& error, const Key& key) const {
  return {error.code(),
          fmt::format("{} of key {}: {}", name(call_), key.describe(), error.what()),
          {.key = key}};
}

void LocalPlaces::Call::rethrow(const Error& error) {
  is_late_ = is_late_ || error.code() == ErrorCode::timeout;
  if (key_ == nullptr || error.key() != nullptr) throw;
  throw named(error, *key_);
}

LocalPlaces::Call::~Call() {
  if (kept_.empty()) return;
  try {
    let_go();
  } catch (const std::exception& error) {
    base::log().warn("{}", error.what());
  }
}

void LocalPlaces::Call::let_go() {
  try {
    // Do not wait again for a late call: it has had all its time.
    if (!is_late_) return places_.gpu_->wait();
  } catch (const Error& error) {
    is_late_ = error.code() == ErrorCode::timeout;
    base::log().warn("{}", named(error, *key_).what());
  }
  if (is_late_) places_.calls_->keep(all_kept());
}

std::vector<Tensor> LocalPlaces::Call::all_kept() const {
  std::vector<Tensor> kept = kept_;
  for (Tensor& tensor : places_.gpu_->take_kept()) kept.push_back(std::move(tensor));
  return kept;
}

LocalMemory& LocalPlaces::Call::memory_of(const Tensor& tensor) const {
  return is_on_gpu(tensor) ? *places_.gpu_ : host_memory();
}

Pending LocalPlaces::Call::end() {
  if (kept_.empty()) return {};
  try {
    Pending pending = places_.calls_->add(words_for(call_, *key_), *key_, all_kept());
    kept_.clear();
    return pending;
  } catch (const Error& error) {
    rethrow(error);
  }
}

}  // namespace tutti
