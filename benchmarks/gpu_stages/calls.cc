#include <algorithm>
#include <array>
#include <string>

#include "benchmarks/gpu_stages/bench.h"
#include "cuda/event.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace tutti::bench::gpu {
namespace {

constexpr std::size_t bytes = 1024;

class Calls {
 public:
  explicit Calls(const Bench& bench) : bench_(bench) {
    stream_.copy_to_device(device_.data(), host_.data(), bytes);
    event_.record(stream_.handle());
    stream_.synchronize();
  }

  void copy_to_device() const { stream_.copy_to_device(device_.data(), host_.data(), bytes); }
  void copy_to_host() const { stream_.copy_to_host(host_.data(), device_.data(), bytes); }
  void launch() const {
    const std::array<const void*, 2> sources{device_.data(), device_.data()};
    kernels_.reduce(stream_.handle(), {DType::f32, DType::f32}, sources, device_.data(), bytes / 4);
  }
  void record() const { event_.record(stream_.handle()); }
  void query() const { static_cast<void>(event_.is_done()); }
  void wait_for() const { stream_.wait_for(event_); }
  void take_event() { static_cast<void>(pool_.take()); }
  void find_memory() const { cuda::locate(device_.data()); }
  void push_context() const { const cuda::ContextGuard context(bench_.gpu); }

  /// Times the caller's own part of a call, which it makes a hundred times in a row.
  void time(const std::string& name, const std::function<void()>& call) const {
    constexpr int calls = 100;
    const auto many = [&] {
      for (int i = 0; i < calls; ++i) call();
    };
    // The queue is emptied in between, because a full one would hold up the caller.
    double least = 1e300;
    for (int i = 0; i < 20; ++i) {
      least = std::min(least, median_seconds(0, many));
      stream_.synchronize();
    }
    print(name, least / calls);
  }

  /// Measures how long it takes until the caller knows that this work is done.
  void time_to_end(const std::string& name, const std::function<void()>& call) const {
    print(name, median_seconds(bench_.seconds, [&] {
            call();
            record();
            while (!event_.is_done()) {
            }
          }));
  }

 private:
  void print(const std::string& name, double seconds) const {
    bench_.print({{"part", "calls"}, {"call", name}, {"us", seconds * 1e6}});
  }

  const Bench& bench_;
  const cuda::Stream stream_{bench_.gpu};
  const cuda::Event event_{bench_.gpu};
  cuda::EventPool pool_{bench_.gpu};
  const cuda::PinnedMemory host_{bench_.gpu, bytes};
  const cuda::DeviceMemory device_{bench_.gpu, bytes};
  const cuda::Kernels kernels_{bench_.gpu};
};

}  // namespace

void measure_calls(const Bench& bench) {
  Calls calls(bench);
  bench.meet();
  calls.time("enqueue a copy to the device", [&] { calls.copy_to_device(); });
  calls.time("enqueue a copy to the host", [&] { calls.copy_to_host(); });
  calls.time("launch a kernel", [&] { calls.launch(); });
  calls.time("record an event", [&] { calls.record(); });
  calls.time("ask an event", [&] { calls.query(); });
  calls.time("make a stream wait", [&] { calls.wait_for(); });
  calls.time("take an event from its pool", [&] { calls.take_event(); });
  calls.time("ask where memory lies", [&] { calls.find_memory(); });
  calls.time("push and pop a context", [&] { calls.push_context(); });
  calls.time_to_end("an event on an idle stream, until it is done", [] {});
  calls.time_to_end("1 KiB to the device, until it is done", [&] { calls.copy_to_device(); });
  calls.time_to_end("1 KiB to the host, until it is done", [&] { calls.copy_to_host(); });
  calls.time_to_end("a kernel, until it is done", [&] { calls.launch(); });
}

}  // namespace tutti::bench::gpu
