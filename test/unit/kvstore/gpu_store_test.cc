// Values of stores of one process on a GPU, which the stand-in plays. A real one passes those with
// the tag [gpu].
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "../errors.h"
#include "gpu_scene.h"
#include "tutti/copy.h"

using namespace tutti;

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
