// Stores of one process with tensors on a GPU, which the stand-in plays. A real one passes those
// with the tag [gpu].
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "../cuda/machine.h"
#include "../errors.h"
#include "gpu_arrays.h"
#include "kvstore/local_store.h"
#include "kvstore/single_store.h"
#include "tutti/copy.h"
#include "tutti/kvstore.h"

using namespace tutti;
using namespace std::chrono_literals;

namespace {

constexpr std::array all_dtypes{DType::f16, DType::bf16, DType::f32, DType::f64,
                                DType::i8,  DType::u8,   DType::i32, DType::i64};
constexpr std::array all_ops{ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max};

/// The same elements on the host and on the GPU.
struct Twins {
  Twins(const GpuProgram& program, DType type, std::size_t count, unsigned seed)
      : dtype(type), on_host(some_elements(type, count, seed)), on_gpu(program, type, on_host) {}
  Tensor host() {
    return {on_host.data(), {static_cast<std::int64_t>(on_host.size() / size_of(dtype))}, dtype};
  }
  Tensor gpu() const { return on_gpu.tensor(); }
  bool are_equal() const { return on_gpu.read() == on_host; }

  DType dtype;
  Bytes on_host;
  GpuArray on_gpu;
};

/// Two stores that get the same calls, one on the host and one on the GPU.
struct Pair {
  std::unique_ptr<KVStore> host = KVStore::create("device", Options{});
  std::unique_ptr<KVStore> gpu = KVStore::create("nccl", Options{});
};

Values host_values(std::vector<Twins*> all) {
  std::vector<Tensor> tensors;
  tensors.reserve(all.size());
  for (Twins* twins : all) tensors.push_back(twins->host());
  return tensors;
}
Values gpu_values(std::vector<Twins*> all) {
  std::vector<Tensor> tensors;
  tensors.reserve(all.size());
  for (const Twins* twins : all) tensors.push_back(twins->gpu());
  return tensors;
}

struct Scene {
  GpuProgram program;
  std::unique_ptr<KVStore> store = KVStore::create("device", Options{});
  GpuArray a{program, DType::f32, some_elements(DType::f32, 1000, 1)};
  GpuArray b{program, DType::f32, some_elements(DType::f32, 1000, 2)};
};

}  // namespace

TEST_CASE("a GPU's sums have the host's bits, whatever dtype, operation and size", "[gpu]") {
  const GpuProgram program;
  const Pair stores;
  for (const DType dtype : all_dtypes) {
    for (const ReduceOp op : all_ops) {
      for (const std::size_t count : std::initializer_list<std::size_t>{0, 1, 3, 1001}) {
        Twins a(program, dtype, count, 1);
        Twins b(program, dtype, count, 2);
        Twins c(program, dtype, count, 3);
        INFO(name(dtype) << " " << static_cast<int>(op) << " " << count);
        stores.host->pushpull("w", host_values({&a, &b, &c}), host_values({&b, &a}), {.op = op});
        const Pending pending =
            stores.gpu->pushpull("w", gpu_values({&a, &b, &c}), gpu_values({&b, &a}), {.op = op});
        pending.wait();
        CHECK(a.are_equal());
        CHECK(b.are_equal());
        CHECK(c.are_equal());
      }
    }
  }
}

TEST_CASE("init, push, pull and broadcast keep values on the GPU as on the host", "[gpu]") {
  const GpuProgram program;
  const Pair stores;
  for (const DType dtype : all_dtypes) {
    for (const std::size_t count : std::initializer_list<std::size_t>{0, 77}) {
      const Key key(std::string(name(dtype)) + std::to_string(count));
      Twins first(program, dtype, count, 1);
      Twins second(program, dtype, count, 2);
      Twins out(program, dtype, count, 3);
      stores.host->init({key}, {{first.host()}});
      stores.gpu->init({key}, {{first.gpu()}});
      stores.host->pull({key}, {{out.host()}});
      stores.gpu->pull({key}, {{out.gpu()}}).wait();
      CHECK(out.are_equal());
      CHECK(out.on_host == first.on_host);
      stores.host->push({key}, {{first.host(), second.host()}});
      stores.gpu->push({key}, {{first.gpu(), second.gpu()}}).wait();
      stores.host->pull({key}, {{out.host()}});
      stores.gpu->pull({key}, {{out.gpu()}}).wait();
      CHECK(out.are_equal());
      stores.host->broadcast(key, {second.host(), out.host()}, 0);
      stores.gpu->broadcast(key, {second.gpu(), out.gpu()}, 0).wait();
      CHECK(out.are_equal());
      CHECK(out.on_host == second.on_host);
    }
  }
  CHECK(stores.gpu->counters().bytes_reduced == stores.host->counters().bytes_reduced);
}

TEST_CASE("the halves of a pushpull, repeated keys and rows work on the GPU as on the host",
          "[gpu]") {
  const GpuProgram program;
  const Pair stores;
  Twins a(program, DType::f32, 12, 1);
  Twins b(program, DType::f32, 12, 2);
  Twins out(program, DType::f32, 12, 3);
  stores.host->reduce_scatter("w", {a.host(), b.host()}, {out.host()});
  stores.gpu->reduce_scatter("w", {a.gpu(), b.gpu()}, {out.gpu()}).wait();
  CHECK(out.are_equal());
  stores.host->allgather("w", {a.host()}, {out.host()});
  stores.gpu->allgather("w", {a.gpu()}, {out.gpu()}).wait();
  CHECK(out.are_equal());
  stores.host->init({"w"}, {{a.host()}});
  stores.gpu->init({"w"}, {{a.gpu()}});
  stores.host->push({"w", "w"}, {{a.host()}, {b.host()}});
  stores.gpu->push({"w", "w"}, {{a.gpu()}, {b.gpu()}}).wait();
  std::array<std::int64_t, 2> ids{7, 2};
  const Tensor rows(ids.data(), {2}, DType::i64);
  stores.host->row_sparse_pull({"w"}, {{out.host()}}, {rows});
  stores.gpu->row_sparse_pull({"w"}, {{out.gpu()}}, {rows});
  CHECK(out.are_equal());
}

TEST_CASE("an optimizer updates a GPU's value as it updates the host's", "[gpu]") {
  const GpuProgram program;
  const Pair stores;
  for (KVStore* store : {stores.host.get(), stores.gpu.get()}) {
    store->set_optimizer(
        {.name = "sgd", .parameters = {{"learning_rate", 0.1}, {"momentum", 0.9}}});
  }
  Twins weight(program, DType::f32, 501, 1);
  Twins gradient(program, DType::f32, 501, 2);
  Twins other(program, DType::f32, 501, 3);
  stores.host->init({1}, {{weight.host()}});
  stores.gpu->init({1}, {{weight.gpu()}});
  for (int step = 0; step < 3; ++step) {
    stores.host->pushpull(1, {gradient.host(), other.host()}, {weight.host()});
    stores.gpu->pushpull(1, {gradient.gpu(), other.gpu()}, {weight.gpu()}).wait();
    stores.host->push({1}, {{gradient.host()}});
    stores.gpu->push({1}, {{gradient.gpu()}}).wait();
    CHECK(weight.are_equal());
  }
}

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

TEST_CASE("a call is found done by whoever asks, and its callbacks run on another thread") {
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

TEST_CASE("tensors of one key in different places are refused", "[gpu]") {
  Scene scene;
  std::array<float, 1000> memory{};
  const Tensor host(memory.data(), {1000}, DType::f32);
  const Tensor other(memory.data(), {1000}, DType::f32, {Device::Kind::gpu, 1});
  CHECK(text_of(ErrorCode::unsupported,
                [&] {
                  scene.store->pushpull("w", {scene.a.tensor(), host}, {scene.a.tensor()});
                }) ==
        "pushpull of key 'w': input 0 is on gpu(0), but another is on cpu(0); the tensors of one "
        "key must be on one GPU");
  CHECK_THAT(text_of(ErrorCode::unsupported,
                     [&] {
                       scene.store->pushpull("w", {scene.a.tensor(), other}, {scene.a.tensor()});
                     }),
             Catch::Contains("another is on gpu(1)"));
  CHECK(text_of(ErrorCode::invalid_argument,
                [&] { scene.store->pushpull("w", {scene.a.tensor()}, {host}); }) ==
        "pushpull of key 'w': the input is on gpu(0), but the output is on cpu(0); both must be on "
        "the CPU, or both on one GPU");
  scene.store->init({"v"}, {{host}});
  CHECK_THAT(
      text_of(ErrorCode::invalid_argument, [&] { scene.store->pull({"v"}, {{scene.a.tensor()}}); }),
      Catch::Contains("the tensor is on gpu(0), but the key's value is on cpu(0)"));
}

TEST_CASE("tensors that are not where they are said to be are refused by their key") {
  const standin::Playing machine("devices=2");
  Scene scene;
  std::array<float, 2> memory{};
  const auto pushed = [&](const Tensor& tensor) {
    return text_of(ErrorCode::invalid_argument,
                   [&] { scene.store->pushpull("w", {tensor}, {tensor}); });
  };
  CHECK(pushed(Tensor(memory.data(), {2}, DType::f32, {Device::Kind::gpu, 0})) ==
        "pushpull of key 'w': a tensor is said to be on gpu(0), but its memory is the host's");
  CHECK(pushed(Tensor(scene.a.tensor().data(), {2}, DType::f32, {Device::Kind::gpu, 1})) ==
        "pushpull of key 'w': a tensor is on gpu(1), and this store works on gpu(0), whose context "
        "was current at its first GPU tensor; a process uses one GPU, which the option gpu "
        "(TUTTI_GPU) names");
}

TEST_CASE("local takes no GPU tensors, and nccl no others", "[gpu]") {
  Scene scene;
  std::array<float, 2> memory{};
  const Tensor host(memory.data(), {2}, DType::f32);
  CHECK_THAT(text_of(ErrorCode::unsupported,
                     [&] {
                       KVStore::create("local", Options{})
                           ->pushpull("w", {scene.a.tensor()}, {scene.a.tensor()});
                     }),
             Catch::Contains("input 0 is on gpu(0), but a store of type 'local' takes tensors on "
                             "the CPU; copy it there first"));
  CHECK_THAT(text_of(ErrorCode::unsupported,
                     [&] { KVStore::create("nccl", Options{})->pushpull("w", {host}, {host}); }),
             Catch::Contains("input 0 is on the CPU, but a store of type 'nccl' takes tensors on a "
                             "GPU; ask for 'device' or 'local'"));
}

TEST_CASE("a stream that the program captures is refused", "[gpu]") {
  const Scene scene;
  auto* const begin =
      standin::function<decltype(cuStreamBeginCapture)>("libcuda.so.1", "cuStreamBeginCapture_v2");
  auto* const end =
      standin::function<decltype(cuStreamEndCapture)>("libcuda.so.1", "cuStreamEndCapture");
  scene.program.stream.synchronize();
  const cuda::Stream other(scene.program.gpu);
  CUgraph graph = nullptr;
  begin(other.handle(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  const Tensor captured = scene.a.without_stream().on(other.handle());
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] { scene.store->pushpull("w", {captured}, {captured}); }),
             Catch::Contains("pushpull with a stream that the program captures as a graph"));
  CHECK_THAT(
      text_of(ErrorCode::invalid_argument, [&] { copy(captured, scene.b.without_stream()); }),
      Catch::Contains("copy with a stream that the program captures as a graph"));
  // Other calls, and waits for them, do not break the capture.
  const Pending pending =
      scene.store->broadcast("w", {scene.a.without_stream(), scene.b.without_stream()}, 0);
  pending.wait();
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { pending.wait_on(other.handle()); }),
             Catch::Contains("wait_on with a stream that the program captures"));
  CHECK(end(other.handle(), &graph) == 0);
}

TEST_CASE("an input may lie in another key's output on the GPU", "[gpu]") {
  Scene scene;
  const Bytes before = scene.a.read();
  const Bytes of_b = scene.b.read();
  scene.store
      ->pushpull({1, 2}, {{scene.b.tensor()}, {scene.a.tensor()}},
                 {{scene.a.tensor()}, {scene.b.tensor()}})
      .wait();
  CHECK(scene.a.read() == of_b);
  CHECK(scene.b.read() == before);
}

TEST_CASE("allocate gives memory of the GPU, and copy moves elements there, within it and back",
          "[gpu]") {
  const auto store = KVStore::create("device", Options{});
  const Device gpu{Device::Kind::gpu, 0};
  Bytes bytes = some_elements(DType::f16, 77, 1);
  const Bytes before = bytes;
  const Tensor host(bytes.data(), {77}, DType::f16);
  const Tensor there = store->allocate({77}, DType::f16, gpu);
  const Tensor beside = store->allocate({77}, DType::f16, gpu);
  CHECK(there.device() == gpu);
  copy(host, there);
  copy(there, beside);
  std::ranges::fill(bytes, std::byte{});
  copy(beside, host);
  CHECK(bytes == before);
  CHECK(store->allocate({0}, DType::f64, gpu).data() == nullptr);
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] { copy(host, store->allocate({76}, DType::f16, gpu)); }),
             Catch::Contains("copy from f16 (77) to f16 (76)"));
  CHECK_THAT(
      text_of(ErrorCode::unsupported,
              [&] { KVStore::create("local", Options{})->allocate({1}, DType::f16, gpu); }),
      Catch::Contains("allocate on gpu(0): a store of type 'local' takes tensors on the CPU"));
}

TEST_CASE("the option gpu is the store's GPU from the start") {
  const standin::Playing machine("devices=2");
  Options options;
  options.gpu = 2;
  CHECK(text_of(ErrorCode::invalid_argument, [&] { KVStore::create("device", options); }) ==
        "there is no gpu(2): CUDA shows this process 2 devices");
  options.gpu = 1;
  const auto store = KVStore::create("nccl", options);
  const GpuProgram program;
  const GpuArray array(program, DType::f32, 4);
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] { store->pushpull("w", {array.tensor()}, {array.tensor()}); }),
             Catch::Contains("works on gpu(1), which the option gpu names"));
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
  // Never freed: the hanging work may use them.
  auto* const a = new GpuArray(program, DType::f32, 10);
  auto* const b = new GpuArray(program, DType::f32, 10);
  Options options;
  options.key_timeout = 50ms;
  auto store = KVStore::create("device", options);
  const Pending pending = store->broadcast("w", {a->tensor(), b->tensor()}, 0);
  CHECK_THAT(text_of(ErrorCode::timeout, [&] { pending.wait(); }),
             Catch::Contains("broadcast of key 'w': waited 0.05 s for gpu(0), which does not end"));
  store.reset();
}

TEST_CASE(
    "a call that times out at the device keeps its tensors, for the device may still use them") {
  const standin::Playing machine("", "cuMemcpyDtoHAsync#1=hang");
  const GpuProgram program;
  // Never freed: the hanging work may use them.
  auto* const a = new GpuArray(program, DType::f32, 10);
  const auto owner = std::make_shared<int>();
  Options options;
  options.key_timeout = 50ms;
  auto store = KVStore::create("device", options);
  store->set_optimizer({.name = "sgd", .parameters = {{"learning_rate", 0.1}}});
  store->init({1}, {{a->tensor()}});
  {
    const Tensor plain = a->tensor();
    const Tensor owned(std::shared_ptr<void>(owner, plain.data()), plain.shape(), plain.dtype(),
                       plain.device());
    CHECK_THAT(text_of(ErrorCode::timeout, [&] { store->push({1}, {{owned}}); }),
               Catch::Contains("push of key 1: waited 0.05 s for gpu(0), which does not end"));
  }
  CHECK(owner.use_count() > 1);
  CHECK(store->counters().tensors_reduced == 0);
  store->close();
  CHECK(owner.use_count() > 1);
}

TEST_CASE("a call that close has overtaken is refused", "[gpu]") {
  const Scene scene;
  const Key key("w");
  const Values values{scene.a.tensor()};
  const MethodCall call{
      .method = Method::pushpull, .keys = {&key, 1}, .ins = {&values, 1}, .outs = {&values, 1}};
  for (const auto& backend :
       {make_single_backend("dist_sync_mpi", Options{}).release(),
        make_local_backend("device", Takes::cpu_and_gpu, Options{}).release()}) {
    const std::unique_ptr<Backend> owner(backend);
    backend->submit(call).wait();
    backend->close();
    CHECK_THAT(text_of(ErrorCode::aborted, [&] { backend->submit(call); }),
               Catch::Contains("pushpull of a store that is closed"));
  }
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

TEST_CASE("a store with CPU tensors alone leaves CUDA alone", "[.][first]") {
  std::array<float, 2> memory{1, 2};
  const Tensor tensor(memory.data(), {2}, DType::f32);
  const auto store = KVStore::create("device", Options{});
  store->pushpull("w", {tensor, tensor}, {tensor}).wait();
  CHECK(memory[1] == 4);
  CHECK(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr);
}

// The thread sanitizer sees a missing wait: each case leaves one out, in a process of its own.

TEST_CASE("an input that its stream has yet to write and no stream is named", "[.][race]") {
  Scene scene;
  scene.store->init({"w"}, {{scene.b.without_stream()}});
}

TEST_CASE("an output that its stream has yet to write and no stream is named", "[.][race]") {
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
  const Pending pending = scene.store->broadcast("w", {scene.a.tensor(), scene.b.tensor()}, 0);
  pending.wait_on(scene.program.handle());
  CHECK(scene.b.read() == scene.a.read());
}

TEST_CASE("the thread sanitizer reports a wait that a program forgets, and none where all are") {
  if (!standin::is_sanitized()) return;
  const std::string report = "WARNING: ThreadSanitizer: data race";
  for (const std::string missing :
       {"an input that its stream has yet to write and no stream is named",
        "an output that its stream has yet to write and no stream is named",
        "a stream reads an output without waiting for the call"}) {
    INFO(missing);
    CHECK(standin::said_by(missing).find(report) != std::string::npos);
  }
  const std::string said = standin::said_by("streams and calls wait for each other");
  INFO(said);
  CHECK(said.find("ThreadSanitizer") == std::string::npos);
  CHECK(said.find("All tests passed") != std::string::npos);
}
