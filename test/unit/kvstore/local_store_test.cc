#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "../errors.h"
#include "cuda/gpu.h"
#include "kvstore/local_store.h"
#include "tutti/kvstore.h"

using namespace tutti;

namespace {

struct StoreOfOneProcess {
  std::unique_ptr<KVStore> store = KVStore::create("local", Options{});
  std::array<float, 2> a{1, 2};
  std::array<float, 2> b{10, 20};
  std::array<float, 2> c{100, 200};

  static Tensor tensor(std::array<float, 2>& memory) { return {memory.data(), {2}, DType::f32}; }
  std::array<float, 2> pulled(const Key& key) {
    std::array<float, 2> out{};
    store->pull({key}, {{tensor(out)}}).wait();
    return out;
  }
};

using Pair = std::array<float, 2>;

}  // namespace

TEST_CASE("a call that meets the close of its store on another thread says that it is closed") {
  // KVStore let it through before.
  std::array<float, 2> value{1, 2};
  const Key key = 3;
  const std::array<Values, 1> tensors{StoreOfOneProcess::tensor(value)};
  const auto backend = make_local_backend("local", Takes::cpu, Options{});
  const MethodCall push{.method = Method::push, .keys = {&key, 1}, .ins = tensors};
  backend->submit({.method = Method::init, .keys = {&key, 1}, .ins = tensors});
  backend->submit(push);
  backend->close();
  CHECK(error_of([&] { backend->submit(push); }) ==
        "aborted: push of a store that is closed; KVStore::create makes another");
  const Optimizer optimizer{"sgd", {}};
  CHECK(error_of([&] {
          backend->configure({.method = Method::set_optimizer, .optimizer = &optimizer});
        }) == "aborted: set_optimizer of a store that is closed; KVStore::create makes another");
}

TEST_CASE("every type of one process says its name, rank 0 and one worker") {
  for (const char* type :
       {"local", "Local_Update_CPU", "local_allreduce_cpu", "DEVICE", "local_allreduce_device"}) {
    const auto store = KVStore::create(type, Options{});
    std::string lower;
    for (const char* c = type; *c != 0; ++c) lower += static_cast<char>(std::tolower(*c));
    CHECK(store->type() == lower);
    CHECK(store->rank() == 0);
    CHECK(store->num_workers() == 1);
    store->barrier();
    CHECK(store->join() == 0);
  }
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "a forked child cannot use its parent's store, and the parent goes on") {
  store->init({3}, {{tensor(a)}});
  const auto is_refused = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code() == ErrorCode::unsupported &&
             std::string(error.what()).find("fork") != std::string::npos;
    }
    return false;
  };
  const pid_t child = ::fork();
  if (child == 0) {
    const bool all = is_refused([&] { store->push({3}, {{tensor(b)}}); }) &&
                     is_refused([&] { store->set_gradient_compression("none"); }) &&
                     is_refused([&] { store->barrier(); }) && is_refused([&] { store->join(); }) &&
                     is_refused([&] { static_cast<void>(store->allocate({2}, DType::f32)); });
    store->close();
    store.reset();
    // A store of its own the child may have.
    StoreOfOneProcess own;
    own.store->init({3}, {{StoreOfOneProcess::tensor(c)}});
    ::_exit(all && own.pulled(3) == Pair{100, 200} ? 0 : 1);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(pulled(3) == Pair{1, 2});
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "a forked child closes its parent's store though a thread was in a call") {
  std::vector<float> large(std::size_t{1} << 22, 1.0F);
  const Tensor value(large.data(), {static_cast<std::int64_t>(large.size())}, DType::f32);
  store->init({3}, {{value}});
  std::atomic<bool> stop{false};
  std::thread pushing([&] {
    while (!stop) store->push({3}, {{value}}).wait();
  });
  int failed = 0;
  for (int i = 0; i < 10; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);  // ends a child that hangs
      store->close();
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    failed += status == 0 ? 0 : 1;
  }
  stop = true;
  pushing.join();
  CHECK(failed == 0);
}

TEST_CASE_METHOD(StoreOfOneProcess, "an initialised value is kept apart from the caller's memory") {
  store->init({3}, {{tensor(a)}});
  a = {};
  CHECK(pulled(3) == Pair{1, 2});
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "push assigns the sum over the devices, pull gives it to every output") {
  store->init({3}, {{tensor(a)}});
  store->push({3}, {{tensor(a), tensor(b)}}).wait();
  Pair other{};
  store->pull({3}, {{tensor(c), tensor(other)}}).wait();
  CHECK(c == Pair{11, 22});
  CHECK(other == Pair{11, 22});
  store->push({3}, {{tensor(a)}}).wait();
  CHECK(pulled(3) == Pair{1, 2});
}

TEST_CASE_METHOD(StoreOfOneProcess, "a key repeated in one call is summed") {
  store->init({3, 4}, {{tensor(a)}, {tensor(a)}});
  store->push({3, 4, 3}, {{tensor(a)}, {tensor(b)}, {tensor(c)}}).wait();
  CHECK(pulled(3) == Pair{101, 202});
  CHECK(pulled(4) == Pair{10, 20});
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "pushpull sums the devices into every output and into the store") {
  store->init({"w"}, {{tensor(a)}});
  store->pushpull("w", {tensor(a), tensor(b)}, {tensor(a), tensor(b)}).wait();
  CHECK(a == Pair{11, 22});
  CHECK(b == Pair{11, 22});
  CHECK(pulled("w") == Pair{11, 22});
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "pushpull works without init, as in a collective store, and stores nothing") {
  store->pushpull("w", {tensor(a), tensor(b)}, {tensor(b), tensor(a)}).wait();
  CHECK(a == Pair{11, 22});
  CHECK(b == Pair{11, 22});
  CHECK_THROWS_AS(pulled("w"), Error);
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "of one process the shard is the whole, and nothing is stored") {
  store->reduce_scatter("w", {tensor(a), tensor(b)}, {tensor(c), tensor(b)}).wait();
  CHECK(c == Pair{11, 22});
  CHECK(b == Pair{11, 22});
  store->allgather("w", {tensor(a), tensor(b)}, {tensor(b), tensor(c)}).wait();
  CHECK(b == Pair{1, 2});
  CHECK(c == Pair{1, 2});
  CHECK_THROWS_AS(pulled("w"), Error);
  const Counters counters = store->counters();
  CHECK(counters.tensors_reduced == 1);
  CHECK(counters.bytes_reduced == sizeof a);
  CHECK(counters.tensors_gathered == 1);
  CHECK(counters.bytes_gathered == sizeof a);
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "an array may be one key's output and another key's input in one call") {
  store
      ->pushpull({1, 2}, {{tensor(a), tensor(b)}, {tensor(a), tensor(c)}},
                 {{tensor(a)}, {tensor(b)}})
      .wait();
  CHECK(a == Pair{11, 22});
  CHECK(b == Pair{101, 202});
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "broadcast initialises with the first value and gives it to every output") {
  store->broadcast("w", {tensor(a), tensor(b)}, 0).wait();
  CHECK(b == Pair{1, 2});
  CHECK(pulled("w") == Pair{1, 2});
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { store->broadcast("v", {tensor(a)}, 1); }),
             Catch::Contains("root rank 1"));
}

TEMPLATE_TEST_CASE_SIG("operations other than the sum are honoured", "",
                       ((ReduceOp Op, int Expected), Op, Expected), (ReduceOp::sum, 10),
                       (ReduceOp::average, 10), (ReduceOp::min, -2), (ReduceOp::max, 7)) {
  const auto store = KVStore::create("device", Options{});
  std::array<std::int32_t, 3> values{5, -2, 7};
  const auto at = [&](std::size_t i) { return Tensor(&values[i], {1}, DType::i32); };
  store->pushpull(1, {at(0), at(1), at(2)}, {at(0)}, {.op = Op}).wait();
  CHECK(values[0] == Expected);
}

TEST_CASE("sixteen-bit floats are summed in f32 and rounded once") {
  const auto store = KVStore::create("local", Options{});
  // 256 + 1 + 1: bf16 has 8 bits of fraction, so rounding after each addition would stay at 256.
  std::array<std::uint16_t, 3> values{0x4380, 0x3f80, 0x3f80};
  const auto at = [&](std::size_t i) { return Tensor(&values[i], {1}, DType::bf16); };
  SECTION("over the devices of a key") {
    store->pushpull(1, {at(0), at(1), at(2)}, {at(0)}).wait();
  }
  SECTION("over the places where a key stands in one call") {
    store->pushpull({1, 1, 1}, {{at(0)}, {at(1)}, {at(2)}}, {{at(0)}, {at(0)}, {at(0)}}).wait();
  }
  CHECK(values[0] == 0x4381);
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "an id that is no row is refused with the rows that there are") {
  store->init({"w"}, {{tensor(a)}});
  for (double id : {2.0, -1.0, 0.5}) {
    const Tensor ids(&id, {1}, DType::f64);
    CHECK_THAT(text_of(ErrorCode::invalid_argument,
                       [&] { store->row_sparse_pull({"w"}, {{tensor(b)}}, {ids}); }),
               Catch::Contains("is no row of f32 (2); its 2 rows count from 0"));
  }
}

TEST_CASE("tensors without elements are exchanged like others") {
  const auto store = KVStore::create("local", Options{});
  const Tensor none(nullptr, {0, 4}, DType::f32);
  store->broadcast("w", none, 0).wait();
  store->pushpull("w", {none, none}, {none}).wait();
  store->pull({"w"}, {{none}}).wait();
  CHECK(store->allocate({0}, DType::f64).count() == 0);
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "a key that was never initialised is refused by name, and nothing changes") {
  store->init({1}, {{tensor(a)}});
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store->pull({2}, {{tensor(b)}}); }) ==
        "pull of key 2: it was never initialised; call init or broadcast for it first");
  CHECK(text_of(ErrorCode::invalid_argument, [&] {
          store->push({1, 5}, {{tensor(b)}, {tensor(b)}});
        }) == "push of key 5: it was never initialised; call init or broadcast for it first");
  CHECK(pulled(1) == Pair{1, 2});
}

TEST_CASE_METHOD(StoreOfOneProcess, "a second init is refused by name, and nothing changes") {
  store->init({1}, {{tensor(a)}});
  CHECK(text_of(ErrorCode::invalid_argument,
                [&] {
                  store->init({2, 1}, {{tensor(b)}, {tensor(b)}});
                }) ==
        "init of key 1: it is initialised already, as f32 (2); push, pushpull and broadcast change "
        "its value");
  CHECK(pulled(1) == Pair{1, 2});
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] {
                       store->init({2, 2}, {{tensor(b)}, {tensor(b)}});
                     }),
             Catch::StartsWith("init of key 2: it is initialised already"));
  store->init({2}, {{tensor(b)}});
}

TEST_CASE("a key may have another shape and dtype at each exchange") {
  for (const char* const type : {"local", "device"}) {
    const auto store = KVStore::create(type, Options{});
    std::vector<float> few(8, 1);
    std::vector<float> many(1000, 2);
    std::vector<double> exact(3, 4);
    const Tensor longer(many.data(), {1000}, DType::f32);
    const Tensor other(exact.data(), {3}, DType::f64);
    store->broadcast("w", Tensor(few.data(), {8}, DType::f32), 0).wait();
    store->pushpull("w", longer, longer).wait();
    CHECK(many == std::vector<float>(1000, 2));
    store->pushpull("w", other, other).wait();
    std::vector<double> pulled(3);
    store->pull({"w"}, {{Tensor(pulled.data(), {3}, DType::f64)}}).wait();
    CHECK(pulled == std::vector<double>(3, 4));
  }
}

TEST_CASE("a broadcast gives a key that is known a new value, of another shape, too") {
  for (const char* const type : {"local", "device"}) {
    const auto store = KVStore::create(type, Options{});
    std::vector<float> first(8, 1);
    std::vector<float> second(8, 2);
    std::vector<double> third(3, 3);
    std::vector<double> pulled(3);
    store->broadcast("w", Tensor(first.data(), {8}, DType::f32), 0).wait();
    const Tensor replacing(second.data(), {8}, DType::f32);
    store->broadcast("w", replacing, 0).wait();
    store->pull({"w"}, {{Tensor(first.data(), {8}, DType::f32)}}).wait();
    CHECK(first == std::vector<float>(8, 2));
    store->pushpull("w", replacing, replacing).wait();
    store->broadcast("w", Tensor(third.data(), {3}, DType::f64), 0).wait();
    store->pull({"w"}, {{Tensor(pulled.data(), {3}, DType::f64)}}).wait();
    CHECK(pulled == std::vector<double>(3, 3));
    CHECK_THAT(text_of(ErrorCode::invalid_argument,
                       [&] {
                         store->broadcast({"v", "v"}, {{replacing}, {replacing}}, 0);
                       }),
               Catch::Contains("broadcast of key 'v': it stands twice in one call"));
  }
}

TEST_CASE_METHOD(StoreOfOneProcess, "a tensor unlike the stored value is refused with both") {
  store->init({1}, {{tensor(a)}});
  const Tensor one(a.data(), {1}, DType::f32);
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store->push({1}, {{one}}); }) ==
        "push of key 1: the tensor is f32 (1), but the key was initialised as f32 (2)");
  CHECK(text_of(ErrorCode::invalid_argument,
                [&] {
                  store->pushpull({7, 7}, {{one}, {tensor(a)}}, {{one}, {tensor(a)}});
                }) ==
        "pushpull of key 7: the key stands twice in one call, once as f32 (1) and once "
        "as f32 (2)");
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "what a store of one process lacks is unsupported and says what to do") {
  CHECK(text_of(ErrorCode::unsupported, [&] { store->set_gradient_compression("2bit"); }) ==
        "gradient compression '2bit' is not supported by store type 'local', which sends nothing "
        "between processes; it knows 'none'");
  store->set_gradient_compression("none");
}

TEST_CASE_METHOD(StoreOfOneProcess, "a format is refused as late only if the store knows it") {
  store->broadcast({1, 2}, {{tensor(a)}, {tensor(b)}}, 0).wait();
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store->set_gradient_compression("none"); }) ==
        "set_gradient_compression('none') came after the first tensor; call it right after create");
  CHECK_THAT(text_of(ErrorCode::unsupported, [&] { store->set_gradient_compression("fp17"); }),
             Catch::StartsWith("gradient compression 'fp17' is not supported by store type"));
}

TEST_CASE_METHOD(StoreOfOneProcess,
                 "a format is late after a sum under a reserved key, not after an object") {
  store->broadcast("tutti:object", tensor(a), 0).wait();
  store->set_gradient_compression("none");
  store->pushpull("tutti:sum", tensor(a), tensor(a)).wait();
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store->set_gradient_compression("none"); }) ==
        "set_gradient_compression('none') came after the first tensor; call it right after create");
}

TEST_CASE_METHOD(StoreOfOneProcess, "counters count what was reduced and broadcast") {
  store->broadcast({1, 2}, {{tensor(a)}, {tensor(b)}}, 0).wait();
  store->pushpull({1, 2}, {{tensor(a)}, {tensor(b), tensor(c)}}, {{tensor(a)}, {tensor(b)}}).wait();
  store->push({1}, {{tensor(a)}}).wait();
  const Counters counters = store->counters();
  CHECK(counters.tensors_broadcast == 2);
  CHECK(counters.bytes_broadcast == 16);
  CHECK(counters.tensors_reduced == 3);
  CHECK(counters.bytes_reduced == 24);
  CHECK(counters.batches == 3);
  CHECK(counters.nodes == 1);
}

TEST_CASE("allocated tensors outlive their store, are aligned, and shortage is an error") {
  Tensor tensor;
  {
    const auto store = KVStore::create("local", Options{});
    tensor = store->allocate({5}, DType::i64);
    CHECK_THAT(
        text_of(ErrorCode::internal, [&] { store->allocate({std::int64_t{1} << 60}, DType::i8); }),
        Catch::Contains("not enough memory for a tensor of i8 (1152921504606846976)"));
    CHECK_THAT(
        text_of(ErrorCode::internal, [&] { store->allocate({std::int64_t{1} << 62}, DType::i64); }),
        Catch::Contains("not enough memory for a tensor of i64"));
  }
  CHECK(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64 == 0);
  std::iota(tensor.as<std::int64_t>(), tensor.as<std::int64_t>() + 5, 0);
}

TEST_CASE("threads may use one store at once, each with its own keys and all with one") {
  const auto store = KVStore::create("local", Options{});
  std::int64_t start = 0;
  store->init({0}, {{Tensor(&start, {1}, DType::i64)}});
  std::vector<std::thread> threads;
  for (int thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([&store, thread] {
      for (int round = 0; round < 200; ++round) {
        std::array<std::int64_t, 2> values{thread, round};
        const Tensor first(values.data(), {1}, DType::i64);
        const Tensor second(values.data() + 1, {1}, DType::i64);
        store->pushpull(thread, {first, second}, {second}).wait();
        if (values[1] != thread + round) std::abort();
        store->push({0}, {{first}}).wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(store->counters().tensors_reduced == 1600);
}

TEST_CASE("a build without CUDA says so when nccl is asked for") {
  if (cuda::is_built()) return;
  CHECK_THAT(text_of(ErrorCode::unsupported, [] { KVStore::create("nccl", Options{}); }),
             Catch::Contains("no CUDA and NCCL, which store type 'nccl' needs"));
}

TEST_CASE("an unusable log level in the options is refused") {
  CHECK(text_of(ErrorCode::invalid_argument,
                [] {
                  Options options;
                  options.log_level = "loud";
                  KVStore::create("local", options);
                }) ==
        "Options::log_level (TUTTI_LOG) is loud; it takes off, critical, error, warning, "
        "info, debug or "
        "trace");
}
