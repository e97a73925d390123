// Tensors on a GPU through `dist_sync_mpi`; run under mpirun, with a GPU or its stand-in. All ranks
// use the same device, or with DEVICE_TEST_OWN_GPUS each its own, of which the stand-in has
// several.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <span>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "float_values.h"
#include "store_fixture.h"
#include "unit/cuda/machine.h"

using namespace tutti;
using namespace store_test;
using float_values::Bytes;

namespace {

bool has_own_gpu() {
  return std::getenv("DEVICE_TEST_OWN_GPUS") != nullptr;
}

cuda::Gpu& gpu() {
  static cuda::Gpu only(has_own_gpu() ? std::atoi(std::getenv("OMPI_COMM_WORLD_LOCAL_RANK")) : 0);
  return only;
}

/// Memory on the device that holds these bytes.
class OnDevice {
 public:
  explicit OnDevice(const Bytes& bytes) : memory_(gpu(), bytes.size()) { write(bytes); }

  void write(const Bytes& bytes) {
    const cuda::ContextGuard context(gpu());
    const cuda::Stream stream(gpu());
    stream.copy_to_device(memory_.data(), bytes.data(), bytes.size());
    stream.synchronize();
  }
  Bytes read() const {
    Bytes bytes(memory_.size());
    const cuda::ContextGuard context(gpu());
    const cuda::Stream stream(gpu());
    stream.copy_to_host(bytes.data(), memory_.data(), bytes.size());
    stream.synchronize();
    return bytes;
  }
  Tensor tensor(DType dtype) const {
    return {memory_.data(),
            Shape{static_cast<std::int64_t>(memory_.size() / size_of(dtype))},
            dtype,
            {Device::Kind::gpu, gpu().ordinal()}};
  }

 private:
  cuda::DeviceMemory memory_;
};

constexpr std::array dtypes{DType::f16, DType::bf16, DType::f32, DType::f64,
                            DType::i8,  DType::u8,   DType::i32, DType::i64};
constexpr std::array ops{ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max};

/// A key with its input; the same bytes are given to a tensor on the host and to one on the device.
struct Item {
  DType dtype;
  ReduceOp op;
  std::size_t count;

  Bytes input(std::uint64_t seed, int rank) const {
    if (dtype == DType::f32 || dtype == DType::f64 || size_of(dtype) == 2) {
      return float_values::contribution(seed, rank, count, {dtype, count});
    }
    // Small numbers, whose sums do not overflow.
    Bytes bytes(count * size_of(dtype));
    for (std::size_t i = 0; i < count; ++i) {
      bytes[i * size_of(dtype)] = std::byte(float_values::mixed(seed + i) % 8);
    }
    return bytes;
  }
  CallOptions options(int priority = 0) const { return {.priority = priority, .op = op}; }
};

Tensor on_host(Bytes& bytes, DType dtype) {
  return {bytes.data(), Shape{static_cast<std::int64_t>(bytes.size() / size_of(dtype))}, dtype};
}

std::vector<Item> items() {
  std::vector<Item> all;
  for (const DType dtype : dtypes) {
    for (const ReduceOp op : ops) {
      const bool divides = op == ReduceOp::average;
      if (divides && size_of(dtype) != 2 && dtype != DType::f32 && dtype != DType::f64) continue;
      for (const std::size_t count : {1U, 7U, 1001U, 70'003U}) all.push_back({dtype, op, count});
    }
  }
  all.push_back({DType::f32, ReduceOp::sum, 2'500'001});
  all.push_back({DType::f16, ReduceOp::sum, 0});
  return all;
}

Options drawn(std::mt19937_64& shared) {
  Options options = Options::from_env();
  options.replay = shared() % 2 == 0;
  options.fusion_bytes =
      std::array{std::size_t{0}, std::size_t{4096}, std::size_t{2} << 20}[shared() % 3];
  options.part_bytes =
      std::array{std::size_t{0}, std::size_t{40'000}, std::size_t{4} << 20}[shared() % 3];
  options.slice_bytes =
      std::array{std::size_t{0}, std::size_t{4096}, std::size_t{64} << 10}[shared() % 3];
  return options;
}

std::vector<std::size_t> shuffled(std::size_t count, std::mt19937_64& own) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), own);
  return order;
}

void wait_for_all(const std::vector<Pending>& pendings) {
  for (const Pending& pending : pendings) pending.wait();
}

/// How often this process has called a function of the stand-in for NCCL.
int nccl_calls(const char* function) {
  return standin::function<int(const char*)>("libnccl.so.2", "standin_nccl_calls")(function);
}

/// Sums until all ranks have launched sums of NCCL. False if that takes too long.
bool sums_by_launches(KVStore& store) {
  // The ranks connect by one launch.
  const int connected = nccl_calls("ncclSend") + store.num_workers() - 1;
  const Item item{DType::f32, ReduceOp::sum, 1'000'001};
  const OnDevice in(item.input(1, store.rank()));
  const OnDevice out(Bytes(item.count * sizeof(float)));
  const OnDevice expected(Bytes(item.count * sizeof(float)));
  store.pushpull("first", in.tensor(item.dtype), expected.tensor(item.dtype)).wait();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::array<std::int32_t, 2> told{};  // ranks that have launched, ranks whose time is over
  while (told[0] < store.num_workers() && told[1] == 0) {
    store.pushpull("sum", in.tensor(item.dtype), out.tensor(item.dtype)).wait();
    CHECK(out.read() == expected.read());
    told = {nccl_calls("ncclSend") > connected, std::chrono::steady_clock::now() > until};
    const Tensor tensor(told.data(), Shape{2}, DType::i32);
    store.pushpull("told", tensor, tensor).wait();
  }
  return told[0] == store.num_workers();
}

}  // namespace

TEST_CASE("sums of tensors on a GPU have the bits of sums on the host") {
  try_stores(2, drawn, [](KVStore& store, std::mt19937_64& shared, std::mt19937_64& own) {
    const std::vector<Item> all = items();
    const std::uint64_t seed = shared();
    std::vector<Bytes> host;
    std::deque<OnDevice> device;
    std::deque<OnDevice> device_out;

    for (const Item& item : all) {
      host.push_back(item.input(seed, store.rank()));
      device.emplace_back(host.back());
      device_out.emplace_back(Bytes(host.back().size(), std::byte{0xee}));
    }
    for (int round = 0; round < 4; ++round) {
      std::vector<Pending> pendings;
      for (const std::size_t i : shuffled(2 * all.size(), own)) {
        const Item& item = all[i / 2];
        const auto key = static_cast<int>(i);
        const bool in_place = round % 2 == 1;
        if (i % 2 == 0) {
          const Tensor tensor = on_host(host[i / 2], item.dtype);
          pendings.push_back(store.pushpull(key, tensor, tensor, item.options()));
        } else {
          const Tensor in = device[i / 2].tensor(item.dtype);
          const Tensor out = in_place ? in : device_out[i / 2].tensor(item.dtype);
          pendings.push_back(store.pushpull(key, in, out, item.options()));
        }
      }
      wait_for_all(pendings);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Bytes got = (round % 2 == 1 ? device[i] : device_out[i]).read();
        CAPTURE(i, round, name(all[i].dtype), all[i].count);
        CHECK(got == host[i]);
        host[i] = all[i].input(seed + static_cast<std::uint64_t>(round) + 1, store.rank());
        device[i].write(host[i]);
      }
    }
  });
}

TEST_CASE("ranks with a GPU each sum by launches of NCCL once they are connected", "[own-gpus]") {
  auto store = make_store();
  if (!has_own_gpu() || store->num_workers() == 1) return;
  const int aborted = nccl_calls("ncclCommAbort");
  CHECK(sums_by_launches(*store));
  store.reset();
  // A store that ends well waits for its communicator, and aborts nothing.
  CHECK(nccl_calls("ncclCommAbort") == aborted);
}

TEST_CASE("a process has one communicator, whatever is kept of a store that ended", "[own-gpus]") {
  auto first = make_store();
  if (!has_own_gpu() || first->num_workers() == 1) return;
  CHECK(sums_by_launches(*first));
  const OnDevice value(Bytes(64 * sizeof(float)));
  auto kept = std::make_optional(
      first->pushpull("kept", value.tensor(DType::f32), value.tensor(DType::f32)));
  kept->wait();
  first.reset();
  const auto second = make_store();
  CHECK(sums_by_launches(*second));
  kept.reset();
  const int made = nccl_calls("ncclCommInitRankConfig");
  const auto third = make_store();
  for (int round = 0; round < 20; ++round) {
    third->pushpull("sum", value.tensor(DType::f32), value.tensor(DType::f32)).wait();
  }
  CHECK(nccl_calls("ncclCommInitRankConfig") == made);
}

TEST_CASE("broadcasts and both halves of a sum move tensors on a GPU as they do on the host") {
  try_stores(2, drawn, [](KVStore& store, std::mt19937_64& shared, std::mt19937_64&) {
    const auto size = static_cast<std::size_t>(store.num_workers());
    for (const std::size_t count :
         {std::size_t{1}, 3 * size + 1, std::size_t{50'001}, std::size_t{700'001}}) {
      CAPTURE(count);
      const Item item{DType::f32, ReduceOp::sum, count};
      const Bytes whole = item.input(shared(), store.rank());
      const Shard own = shard(count, store.rank(), store.num_workers());
      const auto slice = [&](std::size_t bytes_of) { return Bytes(bytes_of * 4); };

      Bytes host_sum = slice(own.count());
      Bytes host_in = whole;
      OnDevice in(whole);
      OnDevice out(slice(own.count()));
      store.reduce_scatter("rs host", on_host(host_in, DType::f32), on_host(host_sum, DType::f32))
          .wait();
      store.reduce_scatter("rs", in.tensor(DType::f32), out.tensor(DType::f32)).wait();
      CHECK(out.read() == host_sum);

      Bytes host_all = slice(count);
      OnDevice all(slice(count));
      store.allgather("ag host", on_host(host_sum, DType::f32), on_host(host_all, DType::f32))
          .wait();
      store.allgather("ag", out.tensor(DType::f32), all.tensor(DType::f32)).wait();
      CHECK(all.read() == host_all);

      const int root = static_cast<int>(shared() % size);
      Bytes host_value = item.input(99, store.rank());
      OnDevice value(host_value);
      store.broadcast("bc host", on_host(host_value, DType::f32), root).wait();
      store.broadcast("bc", value.tensor(DType::f32), root).wait();
      CHECK(value.read() == host_value);
    }
  });
}

TEST_CASE("a rank that has joined adds nothing to sums on a GPU, though it never used one") {
  const auto store = make_store();
  const int size = store->num_workers();
  const Item item{DType::f32, ReduceOp::average, 10'001};
  if (store->rank() == size - 1 && size > 1) {
    store->join();
    return;
  }
  Bytes host = item.input(5, store->rank());
  OnDevice device(host);
  store->pushpull("host", on_host(host, DType::f32), on_host(host, DType::f32), item.options())
      .wait();
  store->pushpull("device", device.tensor(DType::f32), device.tensor(DType::f32), item.options())
      .wait();
  CHECK(device.read() == host);
  store->join();
}

TEST_CASE("tensors of a key on the host of one rank and on the GPU of another are a mismatch") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  Bytes host(64);
  OnDevice device(host);
  const Tensor mine = store->rank() == 1 ? on_host(host, DType::f32) : device.tensor(DType::f32);
  const Error error = error_of([&] { store->pushpull("w", mine, mine).wait(); });
  CHECK(error.code() == ErrorCode::mismatch);
  CHECK_THAT(error.what(),
             Catch::Contains("'w'") && Catch::Contains("cpu") && Catch::Contains("gpu"));
  check_alive(*store);
}

TEST_CASE("memory that is not where the tensor says it is is refused by name") {
  const auto store = make_store();
  Bytes host(64);
  const Tensor wrong(host.data(), Shape{16}, DType::f32, {Device::Kind::gpu, gpu().ordinal()});
  const Error error = error_of([&] { store->pushpull("w", wrong, wrong); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK_THAT(error.what(), Catch::Contains("'w'") && Catch::Contains(name(wrong.device())) &&
                               Catch::Contains("the host's"));
  OnDevice device(host);
  const Tensor elsewhere(device.tensor(DType::f32).data(), Shape{16}, DType::f32,
                         {Device::Kind::gpu, gpu().ordinal() + 1});
  CHECK(error_of([&] { store->pushpull("w", elsewhere, elsewhere); }).code() ==
        ErrorCode::invalid_argument);
  const Tensor mixed = on_host(host, DType::f32);
  CHECK(error_of([&] { store->pushpull("w", device.tensor(DType::f32), mixed); }).code() ==
        ErrorCode::invalid_argument);
  check_alive(*store);
}

// The copies are slow (STANDIN_GPU sets their delay). So a copy that the streams do not order comes
// too early. The key is used again although no thread has waited for its last call.
TEST_CASE("inputs are read behind the work in their stream, and a stream waits for the results",
          "[streams]") {
  const auto store = make_store();
  const std::size_t bytes = std::size_t{4} << 20;
  const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
  const cuda::Stream stream(gpu());
  const cuda::PinnedMemory source(gpu(), bytes);
  const cuda::PinnedMemory result(gpu(), bytes);
  const cuda::DeviceMemory in(gpu(), bytes);
  const cuda::DeviceMemory out(gpu(), bytes);
  const auto values = [](const cuda::PinnedMemory& memory) {
    return std::span(reinterpret_cast<float*>(memory.data()), memory.span().size() / sizeof(float));
  };
  for (int round = 0; round < 20; ++round) {
    std::ranges::fill(values(source), value_of(store->rank(), 0, round, 0));
    std::ranges::fill(values(result), -1.0F);
    {
      const cuda::ContextGuard context(gpu());
      stream.copy_to_device(in.data(), source.data(), bytes);
    }
    const auto tensor = [&](const cuda::DeviceMemory& memory) {
      return Tensor(memory.data(), {count}, DType::f32, {Device::Kind::gpu, gpu().ordinal()})
          .on(stream.handle());
    };
    const Pending pending = store->pushpull("w", tensor(in), tensor(out));
    pending.wait_on(stream.handle());
    {
      const cuda::ContextGuard context(gpu());
      stream.copy_to_host(result.data(), out.data(), bytes);
      stream.synchronize();
    }
    const float expected = expected_sum(store->num_workers(), 0, round, 0);
    CAPTURE(round, expected, values(result).front(), values(result).back());
    CHECK(std::ranges::all_of(values(result), [&](float value) { return value == expected; }));
  }
}

// One batch holds all these calls, and tells one after the other that its copies are issued.
TEST_CASE("a key may be used again as soon as wait_on returns, while others of its batch wait",
          "[streams]") {
  const auto store = make_store();
  const Bytes bytes(4);
  const OnDevice memory(bytes);
  const Tensor tensor = memory.tensor(DType::f32);
  const cuda::Stream stream(gpu());
  const int calls = 400;
  for (int round = 0; round < 20; ++round) {
    std::vector<Pending> pendings;
    for (int i = 0; i < calls; ++i) {
      pendings.push_back(store->pushpull(i, tensor, tensor));
    }
    pendings.front().wait_on(stream.handle());
    const Pending again = store->pushpull(0, tensor, tensor);
    for (const Pending& pending : pendings) pending.wait();
    again.wait();
  }
}
