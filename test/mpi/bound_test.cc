// Bound calls of dist_sync_mpi; run under mpirun with any number of ranks.
#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using Catch::Contains;

namespace {

/// Makes a call of one key in one of several ways.
void call(KVStore& store, const Bound& bound, const Tensor& in, const Tensor& out, int way) {
  switch (way) {
    case 0:
      return store.pushpull("sum", in, out).wait();
    case 1:
      return store.allreduce("sum", in, out);
    case 2:
      return bound.run();
    case 3:
      return bound.run_for(std::chrono::nanoseconds(1)).wait();
    case 4:
      return bound.start().wait();
    default:
      static_cast<void>(bound.start());
      return bound.wait();
  }
}

}  // namespace

TEST_CASE("a bound call gives every rank the sum at each start and meets other calls") {
  auto store = make_store();
  constexpr std::size_t count = 1000;
  std::vector<float> in(count);
  std::vector<float> out(count);
  const Tensor from(in.data(), {count}, DType::f32);
  const Tensor to(out.data(), {count}, DType::f32);
  const Bound bound = store->bind("sum", from, to);
  bound.wait();  // nothing was started yet
  for (int round = 0; round < 60; ++round) {
    for (std::size_t i = 0; i < count; ++i) in[i] = value_of(store->rank(), 1, round, i);
    call(*store, bound, from, to, (round + store->rank()) % 6);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (out[i] != expected_sum(store->num_workers(), 1, round, i)) ++wrong;
    }
    INFO("round " << round);
    CHECK(wrong == 0);
  }
}

TEST_CASE("a bound call takes several keys and devices, and the options of a pushpull") {
  auto store = make_store();
  const auto ranks = static_cast<float>(store->num_workers());
  std::array<float, 3> values{};
  const Tensor a(values.data(), {}, DType::f32);
  const Tensor b(&values[1], {}, DType::f32);
  const Tensor c(&values[2], {}, DType::f32);
  const Bound bound =
      store->bind({"v", "w"}, {{a}, {b, c}}, {{a}, {b, c}}, {.priority = 3, .op = ReduceOp::max});
  for (int round = 0; round < 3; ++round) {
    const auto mine = static_cast<float>(store->rank() + 10 * round);
    values = {mine, mine, mine + 1};
    bound.run();
    const float most = ranks - 1 + static_cast<float>(10 * round);
    CHECK(values == std::array<float, 3>{most, most + 1, most + 1});
  }
}

TEST_CASE("each start reads inputs that lie in the outputs of other keys anew") {
  auto store = make_store();
  const auto ranks = static_cast<float>(store->num_workers());
  // So large that the outputs of one key are written before all inputs of the other are read.
  constexpr std::size_t count = 3'000'001;
  std::vector<float> first(count);
  std::vector<float> second(count);
  const Tensor a(first.data(), {count}, DType::f32);
  const Tensor b(second.data(), {count}, DType::f32);
  const Bound bound = store->bind({"v", "w"}, {{a}, {b}}, {{b}, {a}});
  const auto all_are = [](const std::vector<float>& values, float expected) {
    return std::all_of(values.begin(), values.end(),
                       [&](float value) { return value == expected; });
  };
  for (int round = 1; round < 3; ++round) {
    std::fill(first.begin(), first.end(), static_cast<float>(round));
    std::fill(second.begin(), second.end(), static_cast<float>(100 * round));
    bound.run();
    CHECK(all_are(first, ranks * static_cast<float>(100 * round)));
    CHECK(all_are(second, ranks * static_cast<float>(round)));
  }
}

TEST_CASE("a bound call in flight cannot be started, and errors leave the binding usable") {
  auto store = make_store();
  if (store->num_workers() == 1) return;
  const bool late = store->rank() == 0;
  std::array<float, 2> value{1, 2};
  const Tensor tensor(value.data(), {2}, DType::f32);
  const Bound bound = store->bind("again", tensor, tensor);
  if (late) {
    store->barrier();
    bound.run();
  } else {
    const Pending first = bound.start();
    for (const bool runs : {false, true}) {
      const Error error = error_of([&] { runs ? bound.run() : bound.start().wait(); });
      CHECK(error.code() == ErrorCode::duplicate_key);
      CHECK_THAT(error.what(), Contains("'again'"));
    }
    store->barrier();
    bound.wait();
    CHECK(first.done());
  }
  const Tensor flat(value.data(), {1}, DType::f32);
  const Error unlike =
      error_of([&] { late ? store->allreduce("again", flat, flat) : bound.run(); });
  CHECK(unlike.code() == ErrorCode::mismatch);
  CHECK_THAT(unlike.what(), Contains("'again'"));
  if (!late) CHECK(error_of([&] { bound.wait(); }).code() == ErrorCode::mismatch);
  value = {1, 2};
  bound.run();
  const auto ranks = static_cast<float>(store->num_workers());
  CHECK(value == std::array<float, 2>{ranks, 2 * ranks});
  check_alive(*store);
}

TEST_CASE("bind refuses what pushpull refuses, names the call, and submits nothing") {
  auto store = make_store();
  std::vector<float> data(6);
  const Tensor tensor(data.data(), {2, 3}, DType::f32);
  const Tensor flat(data.data(), {6}, DType::f32);
  const Tensor gpu(data.data(), {2, 3}, DType::f32, {Device::Kind::gpu, 1});
  const auto refused = [&](const std::vector<Key>& keys, const std::vector<Values>& ins,
                           const std::vector<Values>& outs, ErrorCode code,
                           const std::string& text) {
    const Error error = error_of([&] { store->bind(keys, ins, outs); });
    CHECK(error.code() == code);
    CHECK_THAT(error.what(), Contains("bound pushpull of") && Contains(text));
  };
  refused({"w"}, {tensor}, {flat}, ErrorCode::invalid_argument, "(6)");
  refused({"w"}, {tensor}, {}, ErrorCode::invalid_argument, "0 lists of outputs");
  refused({"w", "w"}, {tensor, tensor}, {tensor, tensor}, ErrorCode::duplicate_key, "twice");
  refused({"v", "w"}, {tensor, tensor}, {tensor, tensor}, ErrorCode::invalid_argument, "overlap");
  const Bound bound = store->bind("w", tensor, tensor);
  const Error kind = error_of([&] { store->bind(7, tensor, tensor); });
  CHECK(kind.code() == ErrorCode::invalid_argument);
  CHECK_THAT(kind.what(), Contains("7") && Contains("'w'"));
  // Each start looks for the GPU.
  const Bound on_gpu = store->bind("w", gpu, gpu);
  const Error no_gpu = error_of([&] { on_gpu.start(); });
  CHECK(no_gpu.code() == ErrorCode::unsupported);
  CHECK_THAT(no_gpu.what(), Contains("'w'") && Contains("gpu(1)"));
  CHECK(store->counters().tensors_reduced == 0);
  bound.run();
  CHECK(store->counters().tensors_reduced == 1);
}

TEST_CASE("a call outlives its binding, and a binding its store") {
  auto store = make_store();
  const auto ranks = static_cast<float>(store->num_workers());
  auto memory = std::make_shared<float>(1.0F);
  const std::weak_ptr<float> watched = memory;
  Pending pending;
  {
    const Bound bound =
        store->bind("dropped", Tensor(memory, {}, DType::f32), Tensor(memory, {}, DType::f32));
    store->barrier();
    // Until the last rank has started its call, the others' calls are in flight.
    pending = bound.start();
  }
  pending.wait();
  CHECK(*memory == ranks);
  memory.reset();
  CHECK(watched.expired());

  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  const Bound kept = store->bind("kept", tensor, tensor);
  kept.run();
  CHECK(value == ranks);
  store->close();
  CHECK(error_of([&] { store->bind("new", tensor, tensor); }).code() == ErrorCode::aborted);
  for (int turn = 0; turn < 2; ++turn) {
    for (const bool runs : {false, true}) {
      const Error error = error_of([&] { runs ? kept.run() : kept.start().wait(); });
      CHECK(error.code() == ErrorCode::aborted);
      CHECK_THAT(error.what(), Contains("bound pushpull of a store that is closed"));
    }
    store.reset();
  }
  kept.wait();  // for the call of before, which has succeeded
}

TEST_CASE("a callback may start a bound call, and must not run it") {
  auto store = make_store();
  float value = 1;
  float other = 1;
  const Tensor tensor(&value, {}, DType::f32);
  const Tensor next(&other, {}, DType::f32);
  const Bound bound = store->bind("next", next, next);
  std::optional<Error> refused;
  std::atomic<bool> chained{false};
  store->pushpull("first", tensor, tensor).then([&](const std::exception_ptr&) {
    try {
      bound.run();
    } catch (const Error& error) {
      refused = error;
    }
    static_cast<void>(bound.start());
    chained = true;
    chained.notify_all();
  });
  chained.wait(false);
  bound.wait();
  CHECK(other == static_cast<float>(store->num_workers()));
  REQUIRE(refused);
  CHECK(refused->code() == ErrorCode::invalid_argument);
  CHECK_THAT(refused->what(), Contains("run()") && Contains("callback"));
}
