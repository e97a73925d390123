#include "kvstore/gpu_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/keep.h"
#include "kvstore/gpu_pause.h"

namespace tutti {
namespace {

/// Returns the device's error, in the name of a call that the error struck.
std::exception_ptr in_the_name_of(const std::string& call, const Key& key,
                                  const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return std::make_exception_ptr(
        Error(error.code(), fmt::format("{}: {}", call, error.what()), {.key = key}));
  } catch (...) {
    return failure;
  }
}

}  // namespace

/// The end of one call in the GPU's stream.
class GpuCalls::End final : public base::StreamOrder {
 public:
  explicit End(std::shared_ptr<LocalGpu> gpu) : gpu_(std::move(gpu)), event_(gpu_->events.take()) {
    event_->record(gpu_->stream.handle());
  }

  bool is_done() const { return event_->is_done(); }
  void check(DeviceStream stream) const override {
    const cuda::ContextGuard context(gpu_->gpu);
    const cuda::RelaxedCapture relaxed;
    if (cuda::is_capturing(stream.handle())) throw capture_error("wait_on");
  }
  void hold_back(DeviceStream stream) const override {
    const cuda::ContextGuard context(gpu_->gpu);
    const cuda::RelaxedCapture relaxed;
    cuda::make_wait(stream.handle(), *event_);
  }

 private:
  const std::shared_ptr<LocalGpu> gpu_;
  const cuda::EventPool::Pooled event_;
};

Error capture_error(std::string_view call) {
  return {ErrorCode::invalid_argument,
          fmt::format("{}: the program captures the stream as a graph, and the graph "
                      "would run without tutti's part; make the call before or after the capture",
                      call)};
}

Pending GpuCalls::add(base::Completion::What what, const Key& key, std::vector<Tensor> kept) {
  std::shared_ptr<const End> end = not_in_child(new End(memory_->shared_gpu()));
  auto completion = std::make_shared<base::Completion>(1, std::move(what), weak_from_this(), end);
  completion->issue();
  const base::Lock lock(mutex_);
  open_.push_back({completion, std::move(end), std::move(kept), key, base::Clock::now() + limit_});
  return Pending(std::move(completion));
}

void GpuCalls::keep(std::vector<Tensor> kept) {
  std::shared_ptr<const End> end = not_in_child(new End(memory_->shared_gpu()));
  const base::Lock lock(mutex_);
  open_.push_back({nullptr, std::move(end), std::move(kept), Key(0), {}});
}

bool GpuCalls::is_first_done() {
  if (failure_) return true;
  try {
    return open_.front().end->is_done();
  } catch (...) {
    failure_ = std::current_exception();
    return true;
  }
}

std::optional<GpuCalls::Ended> GpuCalls::take_ended() {
  const base::Lock lock(mutex_);
  if (open_.empty()) return std::nullopt;
  if (!is_first_done()) return take_late();
  Open& first = open_.front();
  Ended ended{std::move(first.completion), std::move(first.kept), nullptr};
  if (failure_ && ended.completion) {
    ended.error = in_the_name_of(ended.completion->what(), first.key, failure_);
  }
  open_.pop_front();
  ++busy_;
  return ended;
}

std::optional<GpuCalls::Ended> GpuCalls::take_late() {
  const auto now = base::Clock::now();
  for (Open& call : open_) {
    if (call.completion == nullptr) continue;
    if (now < call.deadline) break;
    const auto error = std::make_exception_ptr(gpu_timeout(memory_->gpu().gpu.ordinal(), limit_));
    ++busy_;
    // The tensors stay in this list, because the GPU may still use them.
    Ended late{std::move(call.completion), {}, nullptr};
    late.error = in_the_name_of(late.completion->what(), call.key, error);
    return late;
  }
  return std::nullopt;
}

void GpuCalls::finish(Ended call) {
  {
    const base::CallbackScope scope;  // the deleters of the tensors may run here
    call.kept.clear();
  }
  const bool has_callbacks = call.completion && call.completion->settle(call.error);
  const base::Lock lock(mutex_);
  if (has_callbacks) due_.push_back(std::move(call.completion));
  --busy_;
  changed_.notify_all();
}

void GpuCalls::poll() {
  const cuda::RelaxedCapture relaxed;
  while (std::optional<Ended> ended = take_ended()) finish(std::move(*ended));
}

void GpuCalls::drive(const base::Completion& call, base::Clock::time_point deadline) {
  const GpuPause pause;
  for (poll(); !call.is_done() && base::Clock::now() < deadline; poll()) pause.take();
}

void GpuCalls::ask(const base::Completion&) noexcept {
  try {
    poll();
  } catch (...) {
    // There is no memory for it now. A later look may succeed.
    return;
  }
}

void GpuCalls::attend(const base::Completion&) {
  const base::Lock lock(mutex_);
  attends_ = true;
  start_thread();
  changed_.notify_all();
}

void GpuCalls::start_thread() {
  if (!thread_.joinable()) thread_ = base::NamedThread("tutti-gpu", [this] { run(); });
}

GpuCalls::Outcome GpuCalls::take_due() {
  if (due_.empty()) return nullptr;
  Outcome due = std::move(due_.front());
  due_.pop_front();
  ++busy_;
  return due;
}

GpuCalls::Outcome GpuCalls::first_open() const {
  const auto first =
      std::ranges::find_if(open_, [](const Open& call) { return call.completion != nullptr; });
  return first == open_.end() ? nullptr : first->completion;
}

void GpuCalls::run() {
  base::Lock lock(mutex_);
  while (true) {
    if (const Outcome due = take_due()) {
      lock.unlock();
      due->call_back();
      lock.lock();
      --busy_;
      changed_.notify_all();
      continue;
    }
    if (closed_) return;
    const Outcome first = attends_ ? first_open() : nullptr;
    attends_ = first != nullptr;
    if (first == nullptr) {
      changed_.wait_until(lock, base::Clock::time_point::max());
      continue;
    }
    lock.unlock();
    drive(*first, base::Clock::time_point::max());
    lock.lock();
  }
}

base::NamedThread GpuCalls::end_thread() {
  base::Lock lock(mutex_);
  if (!due_.empty()) start_thread();
  while (busy_ > 0 || !due_.empty()) {
    changed_.wait_until(lock, base::Clock::time_point::max());
  }
  closed_ = true;
  changed_.notify_all();
  return std::move(thread_);
}

bool GpuCalls::close() {
  base::refuse_in_callback("close()");
  const auto first = [this] {
    const base::Lock lock(mutex_);
    return first_open();
  };
  while (const Outcome open = first()) drive(*open, base::Clock::time_point::max());
  end_thread().join();
  const base::Lock lock(mutex_);
  if (!open_.empty()) base::keep_for_good(shared_from_this());
  return open_.empty();
}

}  // namespace tutti
