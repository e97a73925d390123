// The cost of passing a call from the program to the executor and its completion back. The job has
// one rank, so there are no other ranks and no data.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/doorbell.h"
#include "benchmarks/registered.h"
#include "runtime/session.h"
#include "runtime/world.h"

namespace {

using namespace tutti;
using namespace tutti::runtime;

std::unique_ptr<Session> lone_session() {
  World world;
  world.all_gather = [](std::string mine, const std::string& waiting_for) {
    static_cast<void>(waiting_for);
    return std::vector<std::string>{std::move(mine)};
  };
  return std::make_unique<Session>(std::move(world), Options{});
}

/// Tensors of one f32 each, and the calls for them.
class Tensors {
 public:
  explicit Tensors(std::size_t count) : values_(count, 1) {}

  void describe(CallList& list) {
    for (std::size_t i = 0; i < list.calls.size(); ++i) {
      TensorCall& call = list.calls[i];
      call.key = static_cast<std::int64_t>(i);
      const Tensor tensor(&values_[i], {1}, DType::f32);
      call.signature.shape = tensor.shape();
      call.ins = tensor;
      call.outs = tensor;
    }
  }

 private:
  std::vector<float> values_;
};

Pending submit(Session& session, Tensors& tensors, std::size_t count) {
  auto list = session.new_calls(count, "pushpull");
  tensors.describe(*list);
  return session.submit(std::move(list));
}

/// Makes steps that are not measured. After them the order is agreed on, and buffers have their
/// sizes.
void warm_up(Session& session, Tensors& tensors, std::size_t count) {
  for (int i = 0; i < 200; ++i) submit(session, tensors, count).wait();
}

/// Puts calls into the inbox, takes them out and releases their keys.
void run_inbox(benchmark::State& state, std::size_t count) {
  const auto pool = std::make_shared<CallPool>();
  Inbox inbox(0);
  Tensors tensors(count);
  std::vector<Submission> taken;
  std::vector<const TensorCall*> calls;
  while (state.KeepRunning()) {
    auto list = pool->take(count);
    list->open("pushpull", {});
    tensors.describe(*list);
    inbox.submit(std::move(list));
    inbox.take(taken);
    for (const TensorCall& call : std::get<std::shared_ptr<CallList>>(taken.front())->calls) {
      calls.push_back(&call);
    }
    inbox.release(calls);
    calls.clear();
    taken.clear();
  }
}

/// The waiting thread moves the executor.
void run_same_thread(benchmark::State& state, std::size_t count) {
  const auto session = lone_session();
  Tensors tensors(count);
  warm_up(*session, tensors, count);
  while (state.KeepRunning()) submit(*session, tensors, count).wait();
}

/// A callback on the communication thread tells the end and rings back. Both threads sleep in
/// between, as they do if there are more threads than processors.
void run_other_thread(benchmark::State& state, std::size_t count) {
  const auto session = lone_session();
  Tensors tensors(count);
  warm_up(*session, tensors, count);
  base::Doorbell bell;
  while (state.KeepRunning()) {
    const std::uint32_t ticket = bell.ticket();
    submit(*session, tensors, count).then([&bell](const std::exception_ptr& error) {
      static_cast<void>(error);
      bell.ring();
    });
    bell.wait(ticket, base::Clock::time_point::max());
  }
}

void add(const std::string& what, void (*run)(benchmark::State&, std::size_t)) {
  for (const std::size_t count : {1U, 10U, 160U, 1000U}) {
    const std::string label = what + " tensors=" + std::to_string(count);
    benchmark::RegisterBenchmark(label.c_str(), run, count)
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  }
}

}  // namespace

int main(int argc, char** argv) {
  add("inbox", run_inbox);
  add("same thread", run_same_thread);
  add("other thread", run_other_thread);
  return tutti::bench::run_registered(argc, argv, 15);
}
