// How calls of stores of one process, the program's streams and threads wait for each other on a
// GPU, which the stand-in plays.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "../cuda/machine.h"
#include "../errors.h"
#include "gpu_scene.h"

using namespace tutti;
using namespace std::chrono_literals;

TEST_CASE("a call follows the stream of its tensors, and a stream follows a call") {
  const standin::Playing machine("h2d_delay=0.02 d2d_delay=0.02 kernel_delay=0.02");
  Scene scene;
  const Bytes elements = some_elements(DType::f32, 1000, 7);
  scene.a.fill(elements);
  const Pending pending = scene.store->broadcast("w", {scene.a.tensor(), scene.b.tensor()}, 0);
  CHECK_FALSE(pending.done());
  pending.wait_on(scene.program.handle());
  CHECK_FALSE(pending.done());
  CHECK(scene.b.read() == elements);
  pending.wait();
}

TEST_CASE(
    "a thread that calls done() finds the call done, and its callbacks run on another thread") {
  const standin::Playing machine("d2d_delay=0.02");
  Scene scene;
  const Pending first = scene.store->broadcast("w", {scene.a.tensor(), scene.b.tensor()}, 0);
  CHECK_FALSE(first.wait_for(1us));
  while (!first.done()) std::this_thread::yield();
  std::promise<std::thread::id> called;
  const Pending second = scene.store->pull({"w"}, {{scene.b.tensor()}});
  second.then([&](const std::exception_ptr& error) {
    CHECK_FALSE(error);
    // It may submit, but not wait.
    const Pending third = scene.store->pull({"w"}, {{scene.a.tensor()}});
    CHECK_THROWS_WITH(third.wait(), Catch::Contains("inside a callback"));
    called.set_value(std::this_thread::get_id());
  });
  CHECK(called.get_future().get() != std::this_thread::get_id());
  scene.store->close();
}

TEST_CASE("a call keeps its tensors until the GPU is done, and no longer") {
  const standin::Playing machine("d2d_delay=0.02");
  Scene scene;
  const auto owner = std::make_shared<int>();
  const Tensor plain = scene.a.tensor();
  const Tensor owned = Tensor(std::shared_ptr<void>(owner, plain.data()), plain.shape(),
                              plain.dtype(), plain.device())
                           .on(scene.program.handle());
  const Pending pending = scene.store->broadcast("w", {owned, scene.b.tensor()}, 0);
  CHECK(owner.use_count() > 2);
  pending.wait();
  CHECK(owner.use_count() == 2);
}

TEST_CASE("closing a store ends its calls, and a Pending outlives the store") {
  const standin::Playing machine("d2d_delay=0.02");
  Scene scene;
  const Pending pending = scene.store->broadcast("w", {scene.a.tensor(), scene.b.tensor()}, 0);
  scene.store.reset();
  CHECK(pending.done());
  pending.wait_on(scene.program.handle());
}

TEST_CASE("an error of the device comes with the key, and the store can be destroyed") {
  const standin::Playing machine("d2d_delay=0.02", "cuMemcpyDtoDAsync#3=late:700");
  Scene scene;
  const Pending pending = scene.store->broadcast("w", {scene.a.tensor(), scene.b.tensor()}, 0);
  CHECK_THAT(text_of(ErrorCode::internal, [&] { pending.wait(); }),
             Catch::Contains("broadcast of key 'w': gpu(0): cuEventQuery failed: "
                             "CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK_THAT(
      text_of(ErrorCode::internal, [&] { scene.store->pull({"w"}, {{scene.a.without_stream()}}); }),
      Catch::Contains("pull of key 'w': gpu(0): ") &&
          Catch::Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST_CASE("a call that the device does not end fails after key_timeout, and the store closes") {
  const standin::Playing machine("", "cuMemcpyDtoDAsync#2=hang");
  const GpuProgram program;
  GpuArray& a = standin::never_freed<GpuArray>(program, DType::f32, 10U);
  GpuArray& b = standin::never_freed<GpuArray>(program, DType::f32, 10U);
  Options options;
  options.key_timeout = 50ms;
  auto store = KVStore::create("device", options);
  const Pending pending = store->broadcast("w", {a.tensor(), b.tensor()}, 0);
  CHECK_THAT(text_of(ErrorCode::timeout, [&] { pending.wait(); }),
             Catch::Contains("broadcast of key 'w': waited 0.05 s for gpu(0)"));
  store.reset();
}

TEST_CASE("a bound call that the device does not end is named as the program has made it") {
  const standin::Playing machine("", "cuMemcpyDtoDAsync#1=hang");
  const GpuProgram program;
  GpuArray& a = standin::never_freed<GpuArray>(program, DType::f32, 10U);
  GpuArray& b = standin::never_freed<GpuArray>(program, DType::f32, 10U);
  Options options;
  options.key_timeout = 50ms;
  const auto store = KVStore::create("device", options);
  const Bound sum = store->bind("w", a.tensor(), b.tensor());
  sum.start();
  CHECK_THAT(text_of(ErrorCode::timeout, [&] { sum.wait(); }),
             Catch::StartsWith("bound pushpull of key 'w': waited 0.05 s for gpu(0)"));
}

TEST_CASE(
    "a call that times out at the device keeps its tensors, for the device may still use them") {
  const standin::Playing machine("", "cuMemcpyDtoHAsync#1=hang");
  const GpuProgram program;
  GpuArray& a = standin::never_freed<GpuArray>(program, DType::f32, 10U);
  const auto owner = std::make_shared<int>();
  Options options;
  options.key_timeout = 50ms;
  auto store = KVStore::create("device", options);
  store->set_optimizer({.name = "sgd", .parameters = {{"learning_rate", 0.1}}});
  store->init({1}, {{a.tensor()}});
  {
    const Tensor plain = a.tensor();
    const Tensor owned(std::shared_ptr<void>(owner, plain.data()), plain.shape(), plain.dtype(),
                       plain.device());
    CHECK_THAT(text_of(ErrorCode::timeout, [&] { store->push({1}, {{owned}}); }),
               Catch::Contains("push of key 1: waited 0.05 s for gpu(0)"));
  }
  CHECK(owner.use_count() > 1);
  CHECK(store->counters().tensors_reduced == 0);
  store->close();
  CHECK(owner.use_count() > 1);
}

TEST_CASE("a value may be replaced, in another place too, while enqueued copies read it") {
  const standin::Playing machine("d2d_delay=0.02");
  Scene scene;
  const Bytes elements = scene.a.read();
  std::array<float, 1> memory{1};
  const Tensor host(memory.data(), {1}, DType::f32);
  scene.store->init({"w"}, {{scene.a.tensor()}});
  const Pending pull = scene.store->pull({"w"}, {{scene.b.tensor()}});
  scene.store->broadcast("w", {host}, 0).wait();
  pull.wait();
  CHECK(scene.b.read() == elements);
}

// The thread sanitizer sees a missing wait: each case leaves one out, in a process of its own.

TEST_CASE("an input that a stream still writes, without naming the stream", "[.][race]") {
  Scene scene;
  scene.store->init({"w"}, {{scene.b.without_stream()}});
}

TEST_CASE("an output that a stream still writes, without naming the stream", "[.][race]") {
  Scene scene;
  scene.store->init({"w"}, {{scene.a.tensor()}});
  scene.b.fill(some_elements(DType::f32, 1000, 3));
  scene.store->pull({"w"}, {{scene.b.without_stream()}}).wait();
}

TEST_CASE("a stream reads an output without waiting for the call", "[.][race]") {
  Scene scene;
  const Pending pending = scene.store->broadcast("w", {scene.a.tensor(), scene.b.tensor()}, 0);
  static_cast<void>(scene.b.read());
}

TEST_CASE("streams and calls wait for each other", "[.][no-race]") {
  Scene scene;
  scene.store->init({"input"}, {{scene.b.tensor()}});
  scene.store->init({"output"}, {{scene.a.tensor()}});
  scene.b.fill(some_elements(DType::f32, 1000, 3));
  scene.store->pull({"output"}, {{scene.b.tensor()}}).wait();
  const Pending pending = scene.store->broadcast("w", {scene.a.tensor(), scene.b.tensor()}, 0);
  pending.wait_on(scene.program.handle());
  CHECK(scene.b.read() == scene.a.read());
}

TEST_CASE("streams and calls that a store does not make wait", "[.][race]") {
  const standin::Playing machine("", "cuStreamWaitEvent#0=skip");
  Scene scene;
  const Pending pending = scene.store->broadcast("w", {scene.a.tensor(), scene.b.tensor()}, 0);
  pending.wait_on(scene.program.handle());
  static_cast<void>(scene.b.read());
}

TEST_CASE("the thread sanitizer reports a wait that is left out, and none where all are") {
  if (!standin::is_sanitized()) return;
  const std::string report = "WARNING: ThreadSanitizer: data race";
  for (const std::string missing :
       {"an input that a stream still writes, without naming the stream",
        "an output that a stream still writes, without naming the stream",
        "a stream reads an output without waiting for the call",
        "streams and calls that a store does not make wait"}) {
    INFO(missing);
    const std::string said = standin::said_by(missing);
    INFO(said);
    CHECK(said.find(report) != std::string::npos);
  }
  const std::string said = standin::said_by("streams and calls wait for each other");
  INFO(said);
  CHECK(said.find("ThreadSanitizer") == std::string::npos);
  CHECK(said.find("All tests passed") != std::string::npos);
}
