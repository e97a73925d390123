#include "runtime/session.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string_view>

#include "thread_world.h"

using namespace tutti;
using namespace tutti::runtime;
using namespace std::chrono_literals;

namespace {

TensorCall sum_of(const Key& key, std::vector<float>& data, int priority = 0) {
  const Tensor tensor(data.data(), {static_cast<std::int64_t>(data.size())}, DType::f32);
  TensorCall call;
  call.key = key;
  call.signature.kind = CollectiveKind::allreduce;
  call.signature.dtype = DType::f32;
  call.signature.shape = tensor.shape();
  call.priority = priority;
  call.ins = tensor;
  call.outs = tensor;
  return call;
}

Pending submit(Session& session, TensorCall call) {
  const auto list = session.new_calls(1, "sum");
  list->calls[0] = std::move(call);
  return session.submit(list);
}

bool on_communication_thread() {
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return std::string_view(name.data()) == "tutti-exec";
}

}  // namespace

TEST_CASE("ranks as threads sum tensors in a random order of their own") {
  const auto seed = std::random_device{}();
  Options options;
  options.replay = GENERATE(false, true);
  INFO("seed " << seed << ", replay " << options.replay);
  for (const int size : {1, 2, 3, 5, 8}) {
    std::atomic<std::size_t> wrong{0};
    with_sessions(size, options, [&](Session& session) {
      std::mt19937 own(seed + static_cast<unsigned>(session.rank()));
      constexpr std::size_t keys = 40;
      std::vector<std::vector<float>> values(keys);
      for (std::size_t key = 0; key < keys; ++key) values[key].resize(key * key * 5);
      for (int round = 0; round < 10; ++round) {
        std::vector<std::size_t> order(keys);
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), own);
        std::vector<Pending> pending;
        for (const std::size_t key : order) {
          std::fill(values[key].begin(), values[key].end(),
                    static_cast<float>(session.rank() + round));
          pending.push_back(submit(session, sum_of(static_cast<int>(key), values[key])));
        }
        for (const Pending& each : pending) each.wait();
        const int sum = size * (size - 1) / 2 + round * size;
        const auto expected = static_cast<float>(sum);
        for (const auto& value : values) {
          for (const float element : value) wrong += element != expected ? 1 : 0;
        }
      }
    });
    INFO("ranks " << size);
    CHECK(wrong == 0);
  }
}

TEST_CASE("ranks that see caches of different sizes cut their tensors alike") {
  std::atomic<int> right{0};
  const auto sum = [&](Session& session) {
    std::vector<float> values(1'000'000, 1);
    submit(session, sum_of("w", values)).wait();
    const bool summed = values == std::vector<float>(values.size(), 2);
    for (const Choice& choice : session.choices()) {
      if (choice.name == "shared cache") right += summed && choice.value == "1M" ? 1 : 0;
    }
  };
  REQUIRE_NOTHROW(with_sessions(2, {}, sum, [](int rank, World& world) {
    world.cache_bytes = std::size_t{rank == 0 ? 32U : 1U} << 20;
  }));
  CHECK(right == 2);
}

TEST_CASE("slices that find no room in memory are told with the option that made them so large") {
  Options options;
  options.slice_bytes = std::size_t{8} << 40;
  CHECK_THROWS_WITH(with_sessions(2, options, [](Session&) {}),
                    Catch::Contains("lower Options.slice_bytes (TUTTI_SLICE_BYTES), which is 8T"));
}

TEST_CASE("ranks share processors where all of a node may run on fewer than they are") {
  // Each rank is bound to one processor, or to those of two.
  using Bound = std::vector<std::set<int>>;
  const auto bound =
      GENERATE(Bound{{0}, {1}, {2}, {3}, {4}}, Bound{{0, 1}, {0, 1}, {2}, {3}, {2, 3}},
               Bound{{7}, {7}, {7}, {7}, {0, 1, 2, 3, 4}}, Bound{{0}, {0}, {0}, {0}, {0}});
  std::set<int> all;
  for (const std::set<int>& one : bound) all.insert(one.begin(), one.end());
  CAPTURE(all.size());
  std::atomic<int> right{0};
  const auto sum = [&](Session& session) {
    std::vector<float> values(50'000, 1);
    for (int round = 0; round < 10; ++round) submit(session, sum_of("w", values)).wait();
    const bool summed = values == std::vector<float>(values.size(), 9'765'625.0F);
    for (const Choice& choice : session.choices()) {
      if (choice.name != "small sums") continue;
      const bool together = choice.value == "by whoever runs";
      right += summed && together == (all.size() < 5) ? 1 : 0;
    }
  };
  REQUIRE_NOTHROW(with_sessions(5, {}, sum, [&](int rank, World& world) {
    world.processors = bound[static_cast<std::size_t>(rank)];
  }));
  CHECK(right == 5);
}

TEST_CASE("barriers and joins meet every rank") {
  with_sessions(3, Options{}, [&](Session& session) {
    for (int i = 0; i < 20; ++i) session.barrier();
    std::vector<float> value{1};
    if (session.rank() != 2) submit(session, sum_of("k", value)).wait();
    session.join();
  });
}

TEST_CASE("several threads of a rank may meet the others at once: each meeting is one thread's") {
  constexpr int threads = 3;
  constexpr int meetings = 50;
  std::atomic<int> wrong{0};
  with_sessions(2, Options{}, [&](Session& session) {
    std::vector<std::thread> users;
    users.reserve(threads);
    for (int user = 0; user < threads; ++user) {
      users.emplace_back([&] {
        try {
          for (int i = 0; i < meetings; ++i) session.barrier();
          for (int i = 0; i < meetings; ++i) {
            const int last = session.join();
            wrong += last < 0 || last > 1 ? 1 : 0;
          }
        } catch (const Error&) {
          ++wrong;
        }
      });
    }
    for (std::thread& user : users) user.join();
  });
  CHECK(wrong == 0);
}

TEST_CASE("threads of one rank wait for different calls, and each returns with its own") {
  constexpr int threads = 3;
  constexpr int rounds = 200;
  std::atomic<std::size_t> wrong{0};
  Options options;
  options.replay = GENERATE(false, true);
  with_sessions(2, options, [&](Session& session) {
    std::vector<std::thread> users;
    users.reserve(threads);
    for (int user = 0; user < threads; ++user) {
      users.emplace_back([&, user] {
        std::vector<float> value(static_cast<std::size_t>(1) << (7 * user));
        for (int round = 0; round < rounds; ++round) {
          value.back() = static_cast<float>(round + session.rank());
          submit(session, sum_of(user, value)).wait();
          wrong += value.back() != static_cast<float>(2 * round + 1) ? 1 : 0;
        }
      });
    }
    for (std::thread& user : users) user.join();
  });
  CHECK(wrong == 0);
}

TEST_CASE("a thread that waits out of the recorded order is let out at once though another waits") {
  constexpr int tries = 3;
  constexpr int steps = 60;  ///< enough to be replayed again although replay was left
  std::array<base::Clock::duration, tries> took{};
  std::atomic<int> replayed{0};
  std::array<std::atomic<bool>, tries> last_is_done{};
  Options options;
  options.fusion_bytes = 0;
  with_sessions(2, options, [&](Session& session) {
    std::vector<float> value{1};
    std::vector<float> other{1};
    std::vector<float> last{1};
    for (int i = 0; i < tries; ++i) {
      std::uint64_t messages = 0;
      for (int step = 0; step < steps; ++step) {
        messages = session.counters().control_messages;
        const auto submitted = {submit(session, sum_of("first", value)),
                                submit(session, sum_of("other", other)),
                                submit(session, sum_of("last", last))};
        for (const Pending& pending : submitted) pending.wait();
      }
      replayed += session.counters().control_messages == messages ? 1 : 0;
      if (session.rank() == 0) {
        const Pending first = submit(session, sum_of("first", value));
        std::thread has_the_lock([&] { first.wait(); });
        std::this_thread::sleep_for(5ms);
        const Pending out_of_turn = submit(session, sum_of("last", last));
        std::this_thread::sleep_for(5ms);
        const auto start = base::Clock::now();
        out_of_turn.wait();
        took[static_cast<std::size_t>(i)] = base::Clock::now() - start;
        last_is_done[static_cast<std::size_t>(i)] = true;
        last_is_done[static_cast<std::size_t>(i)].notify_one();
        has_the_lock.join();
      } else {
        // This rank waits for nothing of the store's, so it does not ask to be let out.
        const Pending out_of_turn = submit(session, sum_of("last", last));
        last_is_done[static_cast<std::size_t>(i)].wait(false);
        out_of_turn.wait();
        submit(session, sum_of("first", value)).wait();
      }
      submit(session, sum_of("other", other)).wait();
    }
  });
  CHECK(replayed == 2 * tries);
  INFO("patience ends after 100 ms");
  CHECK(*std::min_element(took.begin(), took.end()) < 50ms);
}

TEST_CASE("a callback runs on the communication thread, or inside then() of a call that is done") {
  std::atomic<int> elsewhere{0};
  std::atomic<int> called{0};
  Options options;
  options.replay = GENERATE(false, true);
  with_sessions(2, options, [&](Session& session) {
    std::vector<float> first{1};
    std::vector<float> second{1};
    for (int round = 0; round < 100; ++round) {
      const auto again = std::make_shared<base::Completion>(1, "the callback's own call");
      std::atomic<bool> inside_then{true};
      const Pending pending = submit(session, sum_of("first", first));
      pending.then([&, again](const std::exception_ptr&) {
        elsewhere += inside_then || on_communication_thread() ? 0 : 1;
        submit(session, sum_of("second", second)).then([&, again](const std::exception_ptr&) {
          ++called;
          again->finish();
        });
      });
      inside_then = false;
      pending.wait();
      Pending(again).wait();
    }
  });
  CHECK(called == 200);
  CHECK(elsewhere == 0);
}

TEST_CASE("a wait with a limit gives the progress lock back when a peer is late") {
  with_sessions(2, Options{}, [&](Session& session) {
    std::vector<float> value{1};
    if (session.rank() == 1) std::this_thread::sleep_for(100ms);
    const Pending pending = submit(session, sum_of("late", value));
    if (session.rank() == 0) CHECK_FALSE(pending.wait_for(10ms));
    pending.wait();
    session.barrier();
  });
}

TEST_CASE("a barrier or a join inside a callback is refused, and leaves nothing behind") {
  std::atomic<int> refused{0};
  with_sessions(2, Options{}, [&](Session& session) {
    std::vector<float> value{1};
    const auto called = std::make_shared<base::Completion>(1, "the callback");
    submit(session, sum_of("k", value)).then([&, called](const std::exception_ptr&) {
      for (const bool joins : {false, true}) {
        try {
          joins ? static_cast<void>(session.join()) : session.barrier();
        } catch (const Error& error) {
          refused += error.code() == ErrorCode::invalid_argument ? 1 : 0;
        }
      }
      called->finish();
    });
    Pending(called).wait();
    session.barrier();
  });
  CHECK(refused == 4);
}

TEST_CASE("a wait with the longest limit there is waits") {
  std::atomic<int> waited{0};
  with_sessions(2, Options{}, [&](Session& session) {
    std::vector<float> value{1};
    if (session.rank() == 1) std::this_thread::sleep_for(20ms);
    const Pending pending = submit(session, sum_of("k", value));
    waited += pending.wait_for(std::chrono::nanoseconds::max()) && value[0] == 2 ? 1 : 0;
  });
  CHECK(waited == 2);
}
