// dist_sync_mpi through the public API; run under mpirun with any number of ranks.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "store_fixture.h"
#include "tutti/info.h"

using namespace tutti;
using namespace store_test;

namespace {

/// Checks the place of this rank by the names of the ranks' hosts.
void check_place(KVStore& store) {
  std::array<char, 256> host{};
  CHECK(::gethostname(host.data(), host.size() - 1) == 0);
  auto mine = static_cast<std::int64_t>(std::hash<std::string>()(host.data()));
  std::vector<std::int64_t> all(static_cast<std::size_t>(store.num_workers()));
  store
      .allgather("host", Tensor(&mine, {1}, DType::i64),
                 Tensor(all.data(), {store.num_workers()}, DType::i64))
      .wait();
  CHECK(store.local_rank() == std::count(all.begin(), all.begin() + store.rank(), mine));
  CHECK(store.local_size() == std::count(all.begin(), all.end(), mine));
  CHECK(store.nodes() == static_cast<int>(std::set(all.begin(), all.end()).size()));
}

}  // namespace

TEST_CASE("pushpull gives every rank the sum over all ranks") {
  auto store = make_store();
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000},
                                  std::size_t{100'003}, std::size_t{3'000'001}}) {
    std::vector<float> mine(count);
    std::vector<float> sum(count);
    for (std::size_t i = 0; i < count; ++i) mine[i] = value_of(store->rank(), count, 0, i);
    const Shape shape{static_cast<std::int64_t>(count)};
    store
        ->pushpull("sum", Tensor(mine.data(), shape, DType::f32),
                   Tensor(sum.data(), shape, DType::f32))
        .wait();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (sum[i] != expected_sum(store->num_workers(), count, 0, i)) ++wrong;
    }
    INFO("count " << count);
    CHECK(wrong == 0);
  }
}

TEST_CASE("allreduce gives every rank the sum and returns when it is there") {
  auto store = make_store();
  const Shape shape{1000};
  for (int round = 0; round < 50; ++round) {
    std::vector<float> values(1000);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = value_of(store->rank(), 1, round, i);
    }
    const Tensor tensor(values.data(), shape, DType::f32);
    // It meets the pushpull of another rank.
    if (store->rank() == 0 && round % 2 == 0) {
      store->pushpull("sum", tensor, tensor).wait();
    } else if (round % 3 == 0) {
      store->allreduce_for(std::chrono::nanoseconds(1), {"sum"}, {tensor}, {tensor}).wait();
    } else {
      store->allreduce("sum", tensor, tensor);
    }
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != expected_sum(store->num_workers(), 1, round, i)) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a store says where its rank is on its machine") {
  const auto store = make_store();
  CHECK(store->nodes() == static_cast<int>(store->counters().nodes));
  check_place(*store);
  if (store->rank() == 0) return;
  // On several machines local ranks then begin at other numbers than ranks.
  Options without_first = Options::from_env();
  for (int rank = 1; rank < store->num_workers(); ++rank) without_first.ranks.push_back(rank);
  check_place(*make_store(without_first));
}

TEST_CASE("pushpull in place, unaligned, over several devices") {
  auto store = make_store();
  constexpr std::size_t count = 10'001;
  std::vector<std::vector<char>> raw(3, std::vector<char>(count * sizeof(float) + 1));
  std::vector<Tensor> devices;
  for (std::size_t d = 0; d < raw.size(); ++d) {
    for (std::size_t i = 0; i < count; ++i) {
      const float value = value_of(store->rank() * 3 + static_cast<int>(d), 1, 0, i);
      std::memcpy(raw[d].data() + 1 + i * sizeof value, &value, sizeof value);
    }
    devices.emplace_back(raw[d].data() + 1, Shape{static_cast<std::int64_t>(count)}, DType::f32,
                         Device{Device::Kind::cpu, static_cast<int>(d)});
  }
  store->pushpull(5, devices, devices).wait();
  std::size_t wrong = 0;
  for (const auto& bytes : raw) {
    for (std::size_t i = 0; i < count; ++i) {
      float value = 0;
      std::memcpy(&value, bytes.data() + 1 + i * sizeof value, sizeof value);
      if (value != expected_sum(store->num_workers() * 3, 1, 0, i)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("broadcast gives every rank the root's value, from any root") {
  auto store = make_store();
  for (int root = 0; root < store->num_workers(); ++root) {
    std::vector<double> value(50'021);
    if (store->rank() == root) std::iota(value.begin(), value.end(), root * 1000.0);
    store->broadcast("w", Tensor(value.data(), {50'021}, DType::f64), root).wait();
    CHECK(value.front() == root * 1000.0);
    CHECK(value.back() == root * 1000.0 + 50'020);
  }
}

TEST_CASE("average, minimum and maximum, integers and floats") {
  auto store = make_store();
  const int ranks = store->num_workers();
  auto reduce = [&](ReduceOp op, std::int32_t mine) {
    std::int32_t out = 0;
    store->pushpull("op", Tensor(&mine, {}, DType::i32), Tensor(&out, {}, DType::i32), {.op = op})
        .wait();
    return out;
  };
  CHECK(reduce(ReduceOp::min, store->rank() - 2) == -2);
  CHECK(reduce(ReduceOp::max, store->rank() - 2) == ranks - 3);
  CHECK(reduce(ReduceOp::average, 10 + store->rank()) ==
        (10 * ranks + ranks * (ranks - 1) / 2) / ranks);
  float mine = static_cast<float>(store->rank());
  store
      ->pushpull("avg", Tensor(&mine, {}, DType::f32), Tensor(&mine, {}, DType::f32),
                 {.op = ReduceOp::average})
      .wait();
  CHECK(mine == static_cast<float>(ranks - 1) / 2);
}

TEST_CASE("tensors from allocate are exchanged like any other") {
  auto store = make_store();
  constexpr std::int64_t count = 3'000'017;
  const Tensor in = store->allocate({count}, DType::f32);
  const Tensor out = store->allocate({count}, DType::f32);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < count; ++i)
      in.as<float>()[i] = value_of(store->rank(), 2, round, i);
    store->pushpull("shared", in, round == 2 ? in : out).wait();
    const float* const result = (round == 2 ? in : out).as<float>();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (result[i] != expected_sum(store->num_workers(), 2, round, i)) ++wrong;
    }
    CHECK(wrong == 0);
  }
  const int root = store->num_workers() - 1;
  for (std::size_t i = 0; i < count; ++i) out.as<float>()[i] = value_of(store->rank(), 3, 0, i);
  store->broadcast("copy", out, root).wait();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (out.as<float>()[i] != value_of(root, 3, 0, i)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE(
    "tensors in a random order on each rank, with random sizes and priorities, all sum right") {
  auto store = make_store();
  const std::uint64_t seed = agreed_seed();
  std::mt19937_64 shared(seed);
  std::mt19937_64 own(seed * 31 + static_cast<std::uint64_t>(store->rank()));
  constexpr std::size_t keys = 200;
  const char* const wanted = std::getenv("STORE_TEST_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 20;
  std::vector<std::vector<float>> values(keys);
  for (auto& value : values) value.resize(shared() % 16 == 0 ? shared() % 20'000 : shared() % 300);
  std::size_t wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::size_t> order(keys);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), own);
    std::vector<Pending> pending;
    for (const std::size_t key : order) {
      auto& value = values[key];
      for (std::size_t i = 0; i < value.size(); ++i)
        value[i] = value_of(store->rank(), key, round, i);
      const Tensor tensor(value.data(), {static_cast<std::int64_t>(value.size())}, DType::f32);
      pending.push_back(store->pushpull(static_cast<int>(key), tensor, tensor,
                                        {.priority = static_cast<int>(own() % 10)}));
      if (own() % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 300));
    }
    for (const Pending& each : pending) each.wait();
    for (std::size_t key = 0; key < keys; ++key) {
      for (std::size_t i = 0; i < values[key].size(); ++i) {
        if (values[key][i] != expected_sum(store->num_workers(), key, round, i)) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(store->counters().tensors_reduced == keys * static_cast<std::size_t>(rounds));
}

TEST_CASE("a callback may submit the next round and a barrier meets everyone") {
  auto store = make_store();
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  Pending second;
  std::atomic<bool> chained{false};
  store->pushpull("first", tensor, tensor).then([&](const std::exception_ptr& error) {
    if (!error) second = store->pushpull("second", tensor, tensor);
    chained = true;
    chained.notify_all();
  });
  chained.wait(false);
  second.wait();
  const auto ranks = static_cast<float>(store->num_workers());
  CHECK(value == ranks * ranks);
  for (int i = 0; i < 100; ++i) store->barrier();
}

TEST_CASE("a rank that joins contributes nothing while the others go on") {
  auto store = make_store();
  const int ranks = store->num_workers();
  // Rank r has r + 1 batches.
  for (int batch = 0; batch <= store->rank(); ++batch) {
    float sum = 1;
    float average = static_cast<float>(store->rank());
    store->pushpull("g", Tensor(&sum, {}, DType::f32), Tensor(&sum, {}, DType::f32)).wait();
    store
        ->pushpull("a", Tensor(&average, {}, DType::f32), Tensor(&average, {}, DType::f32),
                   {.op = ReduceOp::average})
        .wait();
    CHECK(sum == static_cast<float>(ranks - batch));
    CHECK(average == static_cast<float>(batch + ranks - 1) / 2);
  }
  CHECK(store->join() == ranks - 1);
  float after = 1;
  store->pushpull("g", Tensor(&after, {}, DType::f32), Tensor(&after, {}, DType::f32)).wait();
  CHECK(after == static_cast<float>(ranks));
}

TEST_CASE("several stores live side by side and one after the other") {
  auto first = make_store();
  auto second = make_store();
  float a = 1;
  float b = 2;
  const Pending pa = first->pushpull("k", Tensor(&a, {}, DType::f32), Tensor(&a, {}, DType::f32));
  const Pending pb = second->pushpull("k", Tensor(&b, {}, DType::f32), Tensor(&b, {}, DType::f32));
  pb.wait();
  pa.wait();
  CHECK(a == static_cast<float>(first->num_workers()));
  CHECK(b == 2 * static_cast<float>(first->num_workers()));
  first.reset();
  b = 1;
  second->pushpull("k", Tensor(&b, {}, DType::f32), Tensor(&b, {}, DType::f32)).wait();
  CHECK(b == static_cast<float>(second->num_workers()));
}

TEST_CASE("threads may create stores at the same time") {
  std::vector<std::unique_ptr<KVStore>> stores(4);
  std::vector<std::thread> threads;
  threads.reserve(stores.size());
  for (auto& store : stores) threads.emplace_back([&] { store = make_store(); });
  for (std::thread& thread : threads) thread.join();
  // Which thread's store is whose on another rank is not known: all do the same.
  threads.clear();
  for (auto& store : stores) {
    threads.emplace_back([&] {
      store->barrier();
      store.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("compressed, f32 tensors travel between nodes in half the bytes, and the rest as it is") {
  std::vector<float> value(30'000);
  std::vector<double> exact(1000);
  const Tensor tensor(value.data(), {30'000}, DType::f32);
  const Tensor other(exact.data(), {1000}, DType::f64);
  const auto bytes_for = [&](const char* kind) {
    auto store = make_store();
    const int ranks = store->num_workers();
    store->set_gradient_compression(kind);
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<float>(i % 32);
    const std::uint64_t before = store->counters().bytes_between_nodes;
    store->pushpull("f32", tensor, tensor).wait();
    const std::uint64_t bytes = store->counters().bytes_between_nodes - before;
    std::size_t wrong = 0;
    // Whole numbers up to 8 * 31, which both formats know.
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (value[i] != static_cast<float>(i % 32) * static_cast<float>(ranks)) ++wrong;
    }
    CHECK(wrong == 0);
    std::fill(exact.begin(), exact.end(), 1.0 + 1e-12);
    store->pushpull("f64", other, other).wait();
    CHECK(exact.back() == Approx(ranks * (1.0 + 1e-12)).epsilon(1e-15));
    return bytes;
  };
  const std::uint64_t whole = bytes_for("none");
  CHECK(bytes_for("fp16") * 2 == whole);
  CHECK(bytes_for("bf16") * 2 == whole);
}

TEST_CASE("what travels is chosen before the first tensor, or the choice is refused") {
  auto store = make_store();
  store->set_gradient_compression("fp16");
  store->set_gradient_compression("none");
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  store->pushpull("w", tensor, tensor).wait();
  const Error error = error_of([&] { store->set_gradient_compression("fp16"); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK_THAT(error.what(), Catch::Contains("'fp16'") && Catch::Contains("after the first tensor"));
}

TEST_CASE("a key may have another shape and dtype at each exchange") {
  auto store = make_store();
  const auto ranks = static_cast<float>(store->num_workers());
  std::vector<float> few(8, 1);
  std::vector<float> many(1000, 1);
  std::vector<double> exact(3, 1);
  const Tensor start(few.data(), {8}, DType::f32);
  const Tensor longer(many.data(), {1000}, DType::f32);
  const Tensor other(exact.data(), {3}, DType::f64);
  store->broadcast("w", start, 0).wait();
  store->pushpull("w", longer, longer).wait();
  CHECK(many == std::vector<float>(1000, ranks));
  store->pushpull("w", other, other).wait();
  CHECK(exact == std::vector<double>(3, ranks));
}

TEST_CASE("a broadcast gives a key that is known a new value, of another shape, too") {
  auto store = make_store();
  const int root = store->num_workers() - 1;
  std::vector<float> value(8);
  std::vector<double> other(3);
  const Tensor tensor(value.data(), {8}, DType::f32);
  for (int round = 1; round <= 2; ++round) {
    std::fill(value.begin(), value.end(), static_cast<float>(store->rank() + round));
    store->broadcast("w", tensor, root).wait();
    CHECK(value == std::vector<float>(8, static_cast<float>(root + round)));
  }
  store->pushpull("w", tensor, tensor).wait();
  std::fill(other.begin(), other.end(), store->rank() + 3);
  store->broadcast("w", Tensor(other.data(), {3}, DType::f64), root).wait();
  CHECK(other == std::vector<double>(3, root + 3));
}

TEST_CASE("a compressed average is finite although the sum is too large for 16 bits") {
  auto store = make_store();
  store->set_gradient_compression("fp16");
  std::vector<float> value(5000, 60'000);
  const Tensor tensor(value.data(), {5000}, DType::f32);
  store->pushpull("average", tensor, tensor, {.op = ReduceOp::average}).wait();
  CHECK(value.front() == Approx(60'000).epsilon(2e-3));
  CHECK(value.back() == Approx(60'000).epsilon(2e-3));
}

TEST_CASE("parts are smaller between nodes, unless the program says how large") {
  const auto part_size = [](const KVStore& store) {
    std::string said;
    for (const Choice& choice : store.choices()) {
      if (choice.name == "part size") said += choice.value + " (" + choice.origin + ")";
    }
    return said;
  };
  const std::string chosen = part_size(*make_store());
  INFO(chosen);
  CHECK((chosen == "4M (job: 1 node)" || chosen.starts_with("512K (job: ")));
  CHECK((chosen.ends_with(" nodes)") == chosen.starts_with("512K")));
  Options options = Options::from_env();
  options.part_bytes = 3 << 20;
  CHECK(part_size(*KVStore::create("dist_sync_mpi", options)) == "3M (program)");
}
