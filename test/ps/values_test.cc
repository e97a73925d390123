// The tensors, keys and calls that the store takes; priority; how far workers run ahead.
#include <fmt/format.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "ps/link/scheduler_link.h"
#include "ps/local_job.h"
#include "tutti/version.h"
#include "unit/errors.h"

using namespace tutti;
using namespace std::chrono_literals;
using Catch::Contains;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

/// 2 of a type, as bytes: what two workers' 1s make.
template <typename T>
std::string sums_of(KVStore& kv, DType dtype, T one, T two) {
  const std::string key(name(dtype));
  std::vector<T> value(5, one);
  const auto over = [&](std::vector<T>& values) { return Tensor(values.data(), {5}, dtype); };
  std::vector<T> sum(5);
  kv.init({key}, {over(value)});
  kv.push({key}, {over(value)});
  kv.pull({key}, {over(sum)}).wait();
  const bool pushed = sum == std::vector<T>(5, two);
  kv.pushpull(key + " alone", over(value), over(value)).wait();
  return pushed && value == sum ? "" : key + " ";
}

}  // namespace

TEST_CASE("every type of element goes through the servers") {
  LocalJob job({.workers = 2, .servers = 2, .big_count = 3});
  CHECK(job.run([](KVStore& kv) {
    return sums_of<std::uint16_t>(kv, DType::f16, 0x3c00, 0x4000) +
           sums_of<std::uint16_t>(kv, DType::bf16, 0x3f80, 0x4000) +
           sums_of<float>(kv, DType::f32, 1, 2) + sums_of<double>(kv, DType::f64, 1, 2) +
           sums_of<std::int8_t>(kv, DType::i8, 1, 2) + sums_of<std::uint8_t>(kv, DType::u8, 1, 2) +
           sums_of<std::int32_t>(kv, DType::i32, 1, 2) +
           sums_of<std::int64_t>(kv, DType::i64, 1, 2);
  }) == Said{"", ""});
}

TEST_CASE("an f16 value with a master copy follows steps that f16 cannot make") {
  LocalJob job({.workers = 2, .servers = 2, .big_count = 2});
  CHECK(job.run([](KVStore& kv) {
    std::vector<std::uint16_t> value(4, 0x3c00);  // 1
    const Tensor weights(value.data(), {4}, DType::f16);
    kv.init({"w"}, {weights});
    kv.set_optimizer({"sgd", {{"learning_rate", 1e-4}, {"multi_precision", 1}}});
    for (int step = 0; step < 10; ++step) {
      std::vector<std::uint16_t> half(4, 0x3800);  // 0.5, twice
      kv.push({"w"}, {Tensor(half.data(), {4}, DType::f16)}).wait();
    }
    kv.pull({"w"}, {weights}).wait();
    return fmt::format("{:x} {:x}", value.front(), value.back());
  }) == Said(2, "3bfe 3bfe"));  // 0.999, where single steps would leave 1
}

TEST_CASE("a broadcast gives a value that pushes go on from, though it had a master copy") {
  LocalJob job({.workers = 2, .servers = 2, .big_count = 2});
  CHECK(job.run([](KVStore& kv) {
    std::vector<std::uint16_t> value(4, 0x3c00);  // 1
    const Tensor weights(value.data(), {4}, DType::f16);
    kv.init({"w"}, {weights});
    kv.set_optimizer({"sgd", {{"learning_rate", 1}, {"multi_precision", 1}}});
    std::vector<std::uint16_t> half(4, 0x3800);  // 0.5, twice
    const auto push = [&] { kv.push({"w"}, {Tensor(half.data(), {4}, DType::f16)}).wait(); };
    push();
    std::vector<std::uint16_t> other(4, 0x4900);  // 10
    kv.broadcast("w", Tensor(other.data(), {4}, DType::f16), 0).wait();
    push();
    kv.pull({"w"}, {weights}).wait();
    return fmt::format("{:x} {:x}", value.front(), value.back());
  }) == Said(2, "4880 4880"));  // 9
}

TEST_CASE("lists name several keys, a key may stand in one twice, with devices each") {
  LocalJob job({.workers = 2, .servers = 3});
  CHECK(job.run([](KVStore& kv) {
    Floats one{1};
    Floats two{2};
    Floats sum{0};
    Floats same{0};
    Floats other{0};
    kv.pushpull({"a", "b", "a"}, {{tensor(one), tensor(two)}, {tensor(two)}, {tensor(one)}},
                {{tensor(sum)}, {tensor(other)}, {tensor(same)}})
        .wait();
    return text_of(sum) + " " + text_of(same) + " " + text_of(other);
  }) == Said(2, "8 8 4"));
}

TEST_CASE("integers and strings are not mixed as keys") {
  LocalJob job({.workers = 1, .servers = 1});
  const auto said = job.run([](KVStore& kv) {
    Floats value{1};
    kv.init({3}, {tensor(value)});
    return error_of([&] { kv.init({"w"}, {tensor(value)}); });
  });
  CHECK_THAT(said[0], Contains("invalid_argument: key 'w' is a string, but the earlier key 3"));
}

TEST_CASE("a missing method says what to call instead") {
  LocalJob job({.workers = 1, .servers = 1});
  const auto said = job.run([](KVStore& kv) {
    Floats value{1};
    const Tensor one = kv.allocate({1}, DType::f32);
    return error_of([&] { kv.join(); }) + "; " +
           error_of([&] { kv.reduce_scatter("w", one, tensor(value)); }) + "; " +
           error_of([&] { kv.allgather("w", tensor(value), one); });
  });
  CHECK_THAT(
      said[0],
      Contains("unsupported: join is not supported by store type 'dist_sync'; instead, give "
               "every worker the same number of steps") &&
          Contains("reduce_scatter is not supported by store type 'dist_sync'; instead, call "
                   "pushpull, and take this rank's shard") &&
          Contains("allgather is not supported by store type 'dist_sync'; instead, call pushpull "
                   "with a tensor that is 0 outside this rank's shard"));
}

TEST_CASE("a small urgent tensor is done before a large one that was called first") {
  LocalJob job({.workers = 1, .servers = 1});
  CHECK(job.run([](KVStore& kv) {
    Floats large(std::size_t{16} << 20, 1);
    Floats small{1};
    const auto order = std::make_shared<std::promise<std::string>>();
    std::string names;
    const auto note = [&](const Pending& pending, const char* name) {
      pending.then([&names, order, name](const std::exception_ptr&) {
        names += name;
        if (names.size() == 2) order->set_value(names);
      });
    };
    // The scheduler is asked only once.
    kv.pushpull({"large", "small"}, {{tensor(large)}, {tensor(small)}},
                {{tensor(large)}, {tensor(small)}})
        .wait();
    const Pending first = kv.pushpull("large", tensor(large), tensor(large), {.priority = -1});
    note(first, "L");
    const Pending second = kv.pushpull("small", tensor(small), tensor(small), {.priority = 0});
    note(second, "s");
    return order->get_future().get();
  }) == Said{"sL"});
}

TEST_CASE("dead nodes are counted, and none in a store of one process") {
  CHECK(KVStore::create("local")->num_dead_node() == 0);
  LocalJob job({});
  std::string said;
  std::atomic<bool> may_die{false};
  std::thread survivor([&] {
    said = LocalJob::run_one(
        [&](KVStore& kv) {
          std::string before = std::to_string(kv.num_dead_node());
          may_die = true;
          may_die.notify_all();
          const auto deadline = std::chrono::steady_clock::now() + 10s;
          while (kv.num_dead_node() == 0 && std::chrono::steady_clock::now() < deadline) {
            std::this_thread::sleep_for(1ms);
          }
          return before + " " + std::to_string(kv.num_dead_node());
        },
        "dist_async");
  });
  {
    net::Poller poller;
    ps::SchedulerLink link(job.job(), LocalJob::options(), poller, 0);
    link.join({.role = ps::Role::worker,
               .rank = 1,
               .workers = 2,
               .servers = 2,
               .version = version(),
               .asynchronous = true,
               .address = {},
               .port = 0});
    may_die.wait(false);
  }
  survivor.join();
  CHECK(said == "0 1");
}

TEST_CASE("a fast worker is held where it would be ahead too far") {
  LocalJob job({});
  Options bounded = LocalJob::options();
  bounded.staleness = 2;
  std::atomic<int> pushed{0};
  const auto said = job.run(
      [&](KVStore& kv) {
        Floats value{0};
        Floats gradient{1};
        kv.init({"w"}, {tensor(value)});
        kv.set_optimizer({"sgd", {{"learning_rate", 1}}});
        std::string seen = "in bounds";
        for (int step = 1; step <= 20; ++step) {
          if (kv.rank() == 1) {
            std::this_thread::sleep_for(5ms);
            // The value that a worker sees is never further ahead than the limit allows.
            if (pushed > step - 1 + 2) seen = fmt::format("{} ahead of {}", pushed.load(), step);
          }
          kv.push({"w"}, {tensor(gradient)}).wait();
          if (kv.rank() == 0) pushed = step;
        }
        kv.barrier();
        kv.pull({"w"}, {tensor(value)}).wait();
        return seen + " " + text_of(value);
      },
      "dist_async", bounded);
  CHECK(said == Said(2, "in bounds -40"));
}

TEST_CASE("workers that may be ahead of nobody get the results of a synchronous store") {
  const auto train = [](KVStore& kv) {
    kv.set_optimizer({"adam", {{"learning_rate", 0.1}}});
    Floats value{1, 2, 3};
    kv.broadcast("w", tensor(value), 0).wait();
    for (int step = 0; step < 10; ++step) {
      Floats gradient{0.1F * static_cast<float>(step + kv.rank()), 1, -value[2]};
      kv.pushpull("w", tensor(gradient), tensor(value)).wait();
    }
    return fmt::format("{}", text_of(value));
  };
  Options together = LocalJob::options();
  together.staleness = 0;
  Said synchronous;
  Said asynchronous;
  {
    LocalJob job({.workers = 3, .servers = 2});
    synchronous = job.run(train);
  }
  {
    LocalJob job({.workers = 3, .servers = 2});
    asynchronous = job.run(train, "dist_async", together);
  }
  CHECK(synchronous == asynchronous);
}

TEST_CASE("a synchronous store takes no bound") {
  LocalJob job({.workers = 1, .servers = 1, .create_timeout = 300ms});
  Options bounded = LocalJob::options();
  bounded.staleness = 1;
  CHECK_THAT(LocalJob::run_one([](KVStore&) { return "created"; }, "dist_sync", bounded),
             Contains("invalid_argument: staleness (TUTTI_STALENESS) is 1") &&
                 Contains("create a store of type 'dist_async'"));
}
