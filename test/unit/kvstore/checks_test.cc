// The calls that every store type refuses at once, seen through KVStore with a backend that
// records.
#include "kvstore/checks.h"

#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "../errors.h"
#include "cuda/gpu.h"
#include "tutti/kvstore.h"

using namespace tutti;

namespace {

/// Rank 1 of 3.
class Recorder : public Backend {
 public:
  explicit Recorder(bool sums_repeated_keys)
      : Backend({.type = "recorder",
                 .rank = 1,
                 .size = 3,
                 .methods = {Method::init, Method::push, Method::pull, Method::pushpull,
                             Method::broadcast, Method::reduce_scatter, Method::allgather,
                             Method::row_sparse_pull},
                 .sums_repeated_keys = sums_repeated_keys}) {}
  Pending submit(const MethodCall& call) override {
    last = {{call.keys.begin(), call.keys.end()},
            {call.ins.begin(), call.ins.end()},
            {call.outs.begin(), call.outs.end()},
            call.options};
    return {};
  }
  void configure(const SettingCall&) override {}
  void barrier() override {}
  int join() override { return 2; }
  Tensor allocate(const Shape&, DType) override { return {}; }
  Counters counters() const override { return {}; }

  struct Call {
    std::vector<Key> keys;
    std::vector<Values> ins;
    std::vector<Values> outs;
    CallOptions options;
  };
  Call last;
};

struct CheckedStore {
  explicit CheckedStore(bool sums_repeated_keys = false)
      : owned(std::make_unique<Recorder>(sums_repeated_keys)),
        backend(*owned),
        store(std::move(owned)) {}

  std::unique_ptr<Recorder> owned;
  Recorder& backend;
  KVStore store;
  std::array<float, 4> memory{};
  Tensor pair{memory.data(), {2}, DType::f32};
  Tensor other_pair{memory.data() + 2, {2}, DType::f32};
  Tensor triple{memory.data(), {3}, DType::f32};
  Tensor integers{memory.data(), {2}, DType::i32};
};

}  // namespace

TEST_CASE_METHOD(CheckedStore, "an empty list of keys is refused") {
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store.push({}, {}); }) ==
        "push got an empty list of keys; pass at least one key");
}

TEST_CASE_METHOD(CheckedStore, "a key longer than the bound is refused, one as long is taken") {
  const std::string longest(Key::max_bytes, 'k');
  CHECK_NOTHROW(store.push({longest}, {{pair}}));
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store.push({longest + "k"}, {{pair}}); }) ==
        "push of key '" + std::string(64, 'k') + "..." + std::string(64, 'k') +
            "' (1025 bytes): a key has at most 1024 bytes");
}

TEST_CASE_METHOD(CheckedStore, "lists of different lengths are refused with both lengths") {
  CHECK(text_of(ErrorCode::invalid_argument,
                [&] {
                  store.pushpull({1, 2}, {{pair}}, {{pair}, {other_pair}});
                }) ==
        "pushpull of 2 keys (the first is 1) got 1 lists of inputs; pass one list for each key");
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { store.pull({"a"}, {}); }),
             Catch::Contains("0 lists of outputs"));
  CHECK_THAT(
      text_of(ErrorCode::invalid_argument, [&] { store.row_sparse_pull({1}, {{pair}}, {}); }),
      Catch::Contains("0 lists of row ids"));
}

TEST_CASE_METHOD(CheckedStore, "a key without a tensor is refused by name") {
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store.pushpull("w", Values{}, pair); }) ==
        "pushpull of key 'w' got no input tensor; pass one tensor, or one for each device");
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { store.broadcast("w", Values{}, 0); }),
             Catch::Contains("broadcast of key 'w' got no output tensor"));
}

TEST_CASE_METHOD(CheckedStore, "the devices' tensors of one key must be alike") {
  CHECK(text_of(ErrorCode::invalid_argument,
                [&] {
                  store.pushpull("w", {pair, triple}, {pair});
                }) ==
        "pushpull of key 'w': input 1 is f32 (3), but input 0 is f32 (2); the tensors of one key "
        "must have the same dtype and shape");
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] {
                       store.broadcast(7, {pair, integers}, 0);
                     }),
             Catch::Contains("broadcast of key 7: output 1 is i32 (2), but output 0 is f32 (2)"));
}

TEST_CASE_METHOD(CheckedStore, "outputs must match the inputs in dtype and shape, not in number") {
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store.pushpull("w", pair, triple); }) ==
        "pushpull of key 'w': the input is f32 (2), but the output is f32 (3); both must have the "
        "same dtype and shape");
  store.pushpull("w", {pair, other_pair}, {pair});
}

// Rank 1 of 3 has one of two elements, and element 1 of three.
TEST_CASE_METHOD(CheckedStore,
                 "a shard that is not this rank's is refused with the elements that are") {
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store.reduce_scatter("w", triple, pair); }) ==
        "reduce_scatter of key 'w': the input is f32 (3), of which rank 1 of 3 has elements 1 to "
        "2; the output must be f32 of 1 elements, but is f32 (2)");
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store.allgather("w", pair, triple); }) ==
        "allgather of key 'w': the output is f32 (3), of which rank 1 of 3 has elements 1 to 2; "
        "the input must be f32 of 1 elements, but is f32 (2)");
  const Tensor integer(memory.data(), {1}, DType::i32);
  CHECK_THAT(
      text_of(ErrorCode::invalid_argument, [&] { store.reduce_scatter("w", triple, integer); }),
      Catch::Contains("the output must be f32 of 1 elements, but is i32 (1)"));
}

TEST_CASE_METHOD(CheckedStore, "a shard may have any shape, and no elements") {
  const Tensor one(memory.data(), {1, 1, 1}, DType::f32);
  CHECK_NOTHROW(store.reduce_scatter("w", triple, one));
  CHECK_NOTHROW(store.allgather("w", one, triple));
  const Tensor none(nullptr, {0, 7}, DType::f32);
  const Tensor single(memory.data(), {1}, DType::f32);
  CHECK_NOTHROW(store.reduce_scatter("w", single, none));
  CHECK_NOTHROW(store.allgather("w", none, single));
}

TEST_CASE_METHOD(CheckedStore, "each half wants inputs and outputs, and no key twice") {
  CHECK_THAT(
      text_of(ErrorCode::invalid_argument, [&] { store.reduce_scatter("w", triple, Values{}); }),
      Catch::Contains("reduce_scatter of key 'w' got no output tensor"));
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { store.allgather("w", Values{}, triple); }),
             Catch::Contains("allgather of key 'w' got no input tensor"));
  const Tensor one(memory.data() + 3, {1}, DType::f32);
  CheckedStore summing(true);
  CHECK_THAT(text_of(ErrorCode::duplicate_key,
                     [&] {
                       summing.store.reduce_scatter({5, 5}, {{triple}, {triple}}, {{one}, {one}});
                     }),
             Catch::Contains("reduce_scatter of key 5: the key stands twice"));
}

TEST_CASE_METHOD(CheckedStore,
                 "a tensor on a GPU is unsupported without CUDA, and by stores that take none") {
  const Tensor far(memory.data(), {2}, DType::f32, {Device::Kind::gpu, 1});
  const std::string text = text_of(ErrorCode::unsupported, [&] {
    store.pushpull("w", {pair, far}, {pair});
  });
  CHECK(text == std::string("pushpull of key 'w': input 1 is on gpu(1), but ") +
                    (cuda::is_built() ? "a store of type 'recorder' takes tensors on the CPU; copy "
                                        "the tensor there, and the result back"
                                      : "this build of tutti has no CUDA; copy the tensor to the "
                                        "CPU, and the result back"));
}

TEST_CASE_METHOD(CheckedStore, "a root outside the ranks is refused with the range") {
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store.broadcast("w", pair, 3); }) ==
        "broadcast of key 'w' from root rank 3, but the ranks of this 'recorder' store are 0 to 2");
  CHECK_THAT(text_of(ErrorCode::invalid_argument, [&] { store.broadcast("w", pair, -1); }),
             Catch::Contains("root rank -1"));
  store.broadcast("w", pair, 2);
}

TEST_CASE_METHOD(CheckedStore, "a number that is no reduction is refused at the call") {
  CHECK(text_of(ErrorCode::invalid_argument, [&] {
          store.pushpull("w", pair, pair, {.op = ReduceOp{4}});
        }) == "pushpull of key 'w': op 4 is not known; pass sum, average, min or max");
}

TEST_CASE_METHOD(CheckedStore, "a key twice in one call is refused by types that do not sum it") {
  const std::vector<Values> values{{pair}, {other_pair}, {pair}};
  CHECK(text_of(ErrorCode::duplicate_key,
                [&] {
                  store.pushpull({5, 3, 5}, values, values);
                }) ==
        "pushpull of key 5: the key stands twice in one call; pass all its tensors in one list, "
        "or give each tensor a key of its own");
  CheckedStore summing(true);
  summing.store.push({5, 3, 5}, values);
  CHECK(summing.backend.last.keys.size() == 3);
}

TEST_CASE_METHOD(CheckedStore, "integer and string keys do not mix in one store") {
  store.push({3}, {{pair}});
  CHECK(text_of(ErrorCode::invalid_argument, [&] { store.pull({"fc1"}, {{pair}}); }) ==
        "key 'fc1' is a string, but the earlier key 3 is an integer; the keys of one store must "
        "be all integers or all strings");
  store.pull({4}, {{pair}});
}

TEST_CASE_METHOD(
    CheckedStore,
    "integer and string keys do not mix in one call, and a refused call decides nothing") {
  CHECK_THAT(text_of(ErrorCode::invalid_argument,
                     [&] {
                       store.push({"a", 1}, {{pair}, {other_pair}});
                     }),
             Catch::Contains("key 1 is an integer, but the earlier key 'a'"));
  store.push({1}, {{pair}});
}

TEST_CASE_METHOD(CheckedStore,
                 "keys that begin with 'tutti:' go with either kind, and decide none") {
  store.push({"tutti:object"}, {{pair}});
  store.push({1, "tutti:object"}, {{pair}, {other_pair}});
  CHECK_THROWS_AS(store.push({"tutti"}, {{pair}}), Error);
  CheckedStore named;
  named.store.push({"tutti:object", "a"}, {{pair}, {other_pair}});
  CHECK_THROWS_AS(named.store.push({1}, {{pair}}), Error);
}

TEST_CASE_METHOD(CheckedStore, "the key of the store's own barriers is refused") {
  CHECK(
      text_of(ErrorCode::invalid_argument, [&] { store.pull({"tutti:barrier"}, {{pair}}); }) ==
      "pull of key 'tutti:barrier': the store itself uses this key, for its barriers; pass another "
      "key");
}

TEST_CASE("of two threads that use different kinds of key first, exactly one is refused") {
  for (int round = 0; round < 100; ++round) {
    KeyKind kind;
    std::atomic<int> refused{0};
    const auto admit = [&](const Key& key) {
      try {
        kind.admit({&key, 1});
      } catch (const Error&) {
        ++refused;
      }
    };
    std::thread other([&] { admit("a"); });
    admit(1);
    other.join();
    REQUIRE(refused == 1);
  }
}

TEST_CASE_METHOD(CheckedStore, "a broadcast carries the value at its root alone") {
  store.broadcast("w", {pair, other_pair}, 1);
  REQUIRE(backend.last.ins[0].size() == 1);
  CHECK(backend.last.ins[0][0].data() == pair.data());
  CHECK(backend.last.outs[0].size() == 2);
  store.broadcast("v", {pair, other_pair}, 0);
  CHECK(backend.last.ins[0].empty());
}

TEST_CASE_METHOD(CheckedStore, "an input where another key's output goes arrives as a copy") {
  memory = {1, 2, 3, 4};
  store.pushpull({1, 2}, {{pair}, {pair}}, {{pair}, {other_pair}});
  CHECK(backend.last.ins[0][0].data() == pair.data());
  REQUIRE(backend.last.ins[1][0].data() != pair.data());
  memory = {};
  CHECK(backend.last.ins[1][0].as<float>()[1] == 2);
}

TEST_CASE_METHOD(CheckedStore, "an output that is the rank's part of the input needs no copy") {
  const Tensor own(memory.data() + 1, {1}, DType::f32);
  store.reduce_scatter("w", triple, own);
  CHECK(backend.last.ins[0][0].data() == triple.data());
  store.allgather("w", own, triple);
  CHECK(backend.last.ins[0][0].data() == own.data());
  const Tensor next(memory.data() + 2, {1}, DType::f32);
  store.reduce_scatter("w", triple, next);
  CHECK(backend.last.ins[0][0].data() != triple.data());
  store.allgather("w", next, triple);
  CHECK(backend.last.ins[0][0].data() != next.data());
}

TEST_CASE_METHOD(CheckedStore, "an option that means nothing to the call is dropped") {
  store.pull({1}, {{pair}}, {.op = ReduceOp::max});
  CHECK(backend.last.options.op == ReduceOp::sum);
  store.push({1}, {{pair}}, {.priority = 4, .op = ReduceOp::max});
  CHECK(backend.last.options.op == ReduceOp::max);
  CHECK(backend.last.options.priority == 4);
}

TEST_CASE("wire formats are none, fp16 and bf16; any other is unsupported by name") {
  CHECK(wire_format("none", "t") == WireFormat::none);
  CHECK(wire_format("fp16", "t") == WireFormat::fp16);
  CHECK(wire_format("bf16", "t") == WireFormat::bf16);
  CHECK(text_of(ErrorCode::unsupported, [] { wire_format("2bit", "dist_sync_mpi"); }) ==
        "gradient compression '2bit' is not supported by store type 'dist_sync_mpi', which knows "
        "'none', 'fp16' and 'bf16' (parameter servers: '2bit', '1bit')");
}
