// Stores of one process refuse some tensors on a GPU, with these words. A real GPU passes the tests
// with the tag [gpu].
#include <dlfcn.h>

#include <array>
#include <catch2/catch.hpp>
#include <memory>

#include "../cuda/machine.h"
#include "../errors.h"
#include "gpu_scene.h"
#include "kvstore/local_store.h"
#include "kvstore/single_store.h"
#include "tutti/copy.h"

using namespace tutti;

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
                             "the CPU"));
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
             Catch::Contains("pushpull: the program captures the stream"));
  CHECK_THAT(
      text_of(ErrorCode::invalid_argument, [&] { copy(captured, scene.b.without_stream()); }),
      Catch::Contains("copy: the program captures the stream"));
  // Other calls, and waits for them, do not break the capture.
  const Pending pending =
      scene.store->broadcast("w", {scene.a.without_stream(), scene.b.without_stream()}, 0);
  pending.wait();
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { pending.wait_on(other.handle()); }),
             Catch::Contains("wait_on: the program captures the"));
  CHECK(end(other.handle(), &graph) == 0);
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

TEST_CASE("a call that comes after close is refused", "[gpu]") {
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

TEST_CASE("a store with CPU tensors alone leaves CUDA alone", "[.][first]") {
  std::array<float, 2> memory{1, 2};
  const Tensor tensor(memory.data(), {2}, DType::f32);
  const auto store = KVStore::create("device", Options{});
  store->pushpull("w", {tensor, tensor}, {tensor}).wait();
  CHECK(memory[1] == 4);
  CHECK(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr);
}
