#include "tutti/copy.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "cuda/event.h"
#include "cuda/gpu.h"
#include "cuda/place.h"
#include "cuda/stream.h"
#include "kvstore/checks.h"
#include "kvstore/gpu_calls.h"
#include "kvstore/gpu_pause.h"
#include "kvstore/local_gpu.h"
#include "tutti/error.h"
#include "tutti/options.h"

namespace tutti {
namespace {

void check_copy(const Tensor& from, const Tensor& to) {
  if (!alike(from, to)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("copy from {} to {}: both must have the same dtype and shape",
                            describe(from), describe(to)));
  }
  if (is_on_gpu(from) && is_on_gpu(to) && from.device() != to.device()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("copy from {} to {}: copy moves elements between the CPU and one "
                            "GPU; copy to the CPU first",
                            name(from.device()), name(to.device())));
  }
}

void enqueue(const cuda::Stream& stream, const Tensor& from, const Tensor& to) {
  if (!is_on_gpu(from)) return stream.copy_to_device(to.data(), from.data(), from.bytes());
  if (!is_on_gpu(to)) return stream.copy_to_host(to.data(), from.data(), from.bytes());
  stream.copy(to.data(), from.data(), from.bytes());
}

/// Makes the next work in `stream` wait for all work that is now in the tensor's stream.
void follow(const cuda::Stream& stream, const cuda::Event& event, const Tensor& tensor) {
  if (tensor.stream().is_none()) return;
  if (cuda::is_capturing(tensor.stream().handle())) throw capture_error("copy");
  event.record(tensor.stream().handle());
  stream.wait_for(event);
}

/// Throws if the GPU takes too long. Then the tensors are never freed, because the GPU may still
/// use them.
void wait_for(const cuda::Event& event, const cuda::Gpu& gpu, const Tensor& from,
              const Tensor& to) {
  const std::chrono::milliseconds limit = Options{}.key_timeout;
  const GpuPause pause;
  while (!event.is_done()) {
    if (pause.waited() > limit) {
      static_cast<void>(new std::pair(from, to));
      throw gpu_timeout(gpu.ordinal(), limit, "the default of key_timeout");
    }
    pause.take();
  }
}

void copy_by(const cuda::Gpu& gpu, const Tensor& from, const Tensor& to) {
  const cuda::ContextGuard context(gpu);
  const cuda::RelaxedCapture relaxed;
  const cuda::Stream stream(gpu);
  const cuda::Event event(gpu);
  for (const Tensor* tensor : {&from, &to}) {
    const auto trouble = is_on_gpu(*tensor) ? cuda::trouble_with(*tensor, gpu) : std::nullopt;
    if (trouble) throw Error(ErrorCode::invalid_argument, "copy: a tensor " + *trouble);
    follow(stream, event, *tensor);
  }
  enqueue(stream, from, to);
  event.record(stream.handle());
  wait_for(event, gpu, from, to);
}

}  // namespace

void copy(const Tensor& from, const Tensor& to) {
  check_copy(from, to);
  // A tensor without elements may have a null pointer.
  if (from.bytes() == 0 || from.data() == to.data()) return;
  if (is_on_gpu(from) || is_on_gpu(to)) {
    return copy_by(cuda::Gpu((is_on_gpu(from) ? from : to).device().index), from, to);
  }
  std::memmove(to.data(), from.data(), from.bytes());
}

}  // namespace tutti
