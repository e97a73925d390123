#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>

#include "ps/local_job.h"

using namespace tutti;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

/// The texts if both of two ranks say this.
Said twice(const std::string& text) {
  return {text, text};
}

}  // namespace

TEST_CASE("push sums over devices and workers, and pull gives the sum to every device") {
  LocalJob job({});
  CHECK(job.run([](KVStore& kv) {
    Floats value{1, 1};
    Floats one{1, 2};
    Floats two{10, 20};
    kv.init({"w"}, {tensor(value)});
    kv.push({"w"}, {{tensor(one), tensor(two)}});
    kv.pull({"w"}, {{tensor(one), tensor(two)}}).wait();
    return text_of(one) + ", " + text_of(two);
  }) == twice("22 44, 22 44"));
  CHECK(job.ends() == Said{"", "", ""});
}

TEST_CASE("a forked child cannot use its parent's store, and the parent goes on") {
  LocalJob job({});
  CHECK(job.run([](KVStore& kv) {
    Floats value{2};
    kv.init({"w"}, {tensor(value)});
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        kv.push({"w"}, {tensor(value)}).wait();
      } catch (const Error& error) {
        ::_exit(error.code() == ErrorCode::unsupported ? 7 : 1);
      }
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    kv.pull({"w"}, {tensor(value)}).wait();
    return std::to_string(WEXITSTATUS(status)) + ", " + text_of(value);
  }) == twice("7, 2"));
}

TEST_CASE("a worker says where it is among the workers of its machine") {
  LocalJob job({.workers = 3, .servers = 1});
  const std::vector<std::string> said = job.run([](KVStore& kv) {
    return fmt::format("{} of {} on {}", kv.local_rank(), kv.local_size(), kv.nodes());
  });
  CHECK(said == Said{"0 of 3 on 1", "1 of 3 on 1", "2 of 3 on 1"});
}

TEST_CASE("init takes worker 0's value, broadcast the root's") {
  LocalJob job({});
  CHECK(job.run([](KVStore& kv) {
    Floats mine(2, static_cast<float>(kv.rank() + 5));
    kv.init({3}, {tensor(mine)});
    Floats out(2);
    kv.pull({3}, {tensor(out)}).wait();
    kv.broadcast(4, {tensor(mine)}, /*root_rank=*/1).wait();
    return text_of(out) + ", " + text_of(mine);
  }) == twice("5 5, 6 6"));
}

TEST_CASE("pushpull of a key without a value only reduces, in place, in any shape") {
  LocalJob job({});
  CHECK(job.run([](KVStore& kv) {
    std::string said;
    for (const std::size_t count : {1U, 7U, 3U}) {
      Floats values(count, 1.5F);
      kv.pushpull("g", tensor(values), tensor(values)).wait();
      said += text_of(values) + ";";
    }
    return said;
  }) == twice("3;3 3 3 3 3 3 3;3 3 3;"));
}

TEST_CASE("a bound call is made again and again, also while it is in flight") {
  LocalJob job({});
  CHECK(job.run([](KVStore& kv) {
    Floats in{1, 2};
    Floats out(2);
    const Bound sum = kv.bind("w", tensor(in), tensor(out), {.priority = 1});
    sum.run();
    std::string text = text_of(out);
    in = {3, 4};
    const Pending first = sum.start();
    static_cast<void>(sum.start());
    sum.wait();
    first.wait();
    return text + ", " + text_of(out);
  }) == twice("2 4, 6 8"));
}

TEST_CASE("pushpull gives a stored value its own shape and dtype, push and pull keep to them") {
  LocalJob job({});
  CHECK(job.run([](KVStore& kv) {
    Floats value{1, 1};
    Floats longer{1, 2, 3};
    std::vector<double> exact{0.5};
    const Tensor other(exact.data(), {1}, DType::f64);
    kv.init({"w"}, {tensor(value)});
    kv.pushpull("w", tensor(longer), tensor(longer)).wait();
    Floats pulled(3);
    kv.pull({"w"}, {tensor(pulled)}).wait();
    std::string said = text_of(longer) + ", " + text_of(pulled);
    for (const bool pushes : {true, false}) {
      try {
        const Pending pending =
            pushes ? kv.push({"w"}, {tensor(value)}) : kv.pull({"w"}, {tensor(value)});
        pending.wait();
      } catch (const Error& error) {
        said += ", " + std::string(name(error.code()));
      }
    }
    kv.pushpull("w", other, other).wait();
    return said + ", " + std::to_string(static_cast<int>(exact[0]));
  }) == twice("2 4 6, 2 4 6, invalid_argument, invalid_argument, 1"));
}

TEST_CASE("a value that is split over the servers comes back whole") {
  LocalJob job({.workers = 2, .servers = 3, .big_count = 100});
  CHECK(job.run([](KVStore& kv) {
    Floats value(1001);
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<float>(i);
    kv.pushpull("w", tensor(value), tensor(value)).wait();
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (value[i] != static_cast<float>(2 * i)) return "wrong at " + std::to_string(i);
    }
    return std::string("right");
  }) == twice("right"));
}

TEST_CASE("workers may name keys in any order, and the sums have the same bits everywhere") {
  LocalJob job({.workers = 3, .servers = 2});
  const auto said = job.run([](KVStore& kv) {
    std::vector<Floats> values(20);
    std::vector<Pending> pendings;
    float divisor = 3 + static_cast<float>(kv.rank());
    for (Floats& value : values) value.assign(4, 1.0F / divisor++);
    for (int i = 0; i < 20; ++i) {
      const int key = (i * 7 + kv.rank() * 5) % 20;
      Floats& mine = values[static_cast<std::size_t>(key)];
      pendings.push_back(kv.pushpull(key, tensor(mine), tensor(mine)));
    }
    for (const Pending& pending : pendings) pending.wait();
    std::string all;
    for (const Floats& one : values) all += text_of(one) + ";";
    return all;
  });
  CHECK(said[0] == said[1]);
  CHECK(said[0] == said[2]);
}

TEST_CASE("large values come back in whatever order workers push them, over connections too") {
  // Kept messages travel over connections. There are far more of them than fit into a window.
  LocalJob job({.workers = 3, .servers = 2, .resends = true});
  CHECK(job.run([](KVStore& kv) {
    std::vector<Floats> values(12, Floats(150'000, static_cast<float>(kv.rank() + 1)));
    std::vector<Pending> pendings;
    for (int i = 0; i < 12; ++i) {
      const int key = kv.rank() == 1 ? 11 - i : (i * 5 + kv.rank()) % 12;
      Floats& mine = values[static_cast<std::size_t>(key)];
      pendings.push_back(kv.pushpull(key, tensor(mine), tensor(mine)));
    }
    for (const Pending& pending : pendings) pending.wait();
    const Floats sums(150'000, 6);
    const auto are_right = [&](const Floats& one) { return one == sums; };
    return std::string(std::ranges::all_of(values, are_right) ? "right" : "wrong");
  }) == Said(3, "right"));
}

TEST_CASE("a key that stands twice in a call is summed") {
  LocalJob job({});
  CHECK(job.run([](KVStore& kv) {
    Floats a{1};
    Floats b{2};
    Floats zero{0};
    Floats other{0};
    kv.init({"w", "v"}, {tensor(zero), tensor(other)});
    kv.push({"w", "v", "w"}, {tensor(a), tensor(a), tensor(b)}).wait();
    kv.pull({"w", "v"}, {tensor(a), tensor(b)}).wait();
    return text_of(a) + ", " + text_of(b);
  }) == twice("6, 2"));
}

TEST_CASE("an optimizer on the servers follows the pushes before it") {
  LocalJob job({});
  CHECK(job.run([](KVStore& kv) {
    Floats value{0};
    Floats gradient{1};
    kv.init({"w"}, {tensor(value)});
    kv.push({"w"}, {tensor(gradient)});  // assigns 2
    kv.set_optimizer({"sgd", {{"learning_rate", 0.25}}});
    kv.push({"w"}, {tensor(gradient)});
    kv.pull({"w"}, {tensor(value)}).wait();
    return text_of(value);
  }) == twice("1.5"));
}

TEST_CASE("an asynchronous store updates at once, and needs an optimizer") {
  LocalJob job({});
  CHECK(job.run(
            [&](KVStore& kv) {
              Floats value{0};
              Floats gradient{1};
              kv.init({"w"}, {tensor(value)});
              std::string said;
              try {
                kv.push({"w"}, {tensor(gradient)}).wait();
              } catch (const Error& error) {
                said = std::string(name(error.code())) + " ";
              }
              // Worker 0's optimizer counts at once, also for the other worker's push.
              kv.barrier();
              kv.set_optimizer({"sgd", {{"learning_rate", 1}}});
              const int mine = kv.rank() == 0 ? 2 : 3;
              // One worker pushes twice, the other three times.
              for (int i = 0; i < mine; ++i) kv.push({"w"}, {tensor(gradient)}).wait();
              kv.barrier();
              kv.pull({"w"}, {tensor(value)}).wait();
              return said + text_of(value);
            },
            "dist_async") == twice("invalid_argument -5"));
}

TEST_CASE("a barrier holds every worker until the last has come") {
  LocalJob job({.workers = 3, .servers = 1});
  std::atomic<int> arrived{0};
  const auto said = job.run([&](KVStore& kv) {
    std::string seen;
    for (int round = 1; round <= 5; ++round) {
      ++arrived;
      kv.barrier();
      seen += arrived >= 3 * round ? "y" : "n";
      kv.barrier();
    }
    return seen;
  });
  CHECK(said == Said{"yyyyy", "yyyyy", "yyyyy"});
}

TEST_CASE("a callback may submit, and may not wait") {
  LocalJob job({.workers = 1, .servers = 1});
  CHECK(job.run([](KVStore& kv) {
    Floats values{1};
    Floats more{2};
    Pending second;
    std::string text;
    std::atomic<bool> called{false};
    Pending first = kv.pushpull("g", tensor(values), tensor(values));
    first.then([&](const std::exception_ptr&) {
      second = kv.pushpull("h", tensor(more), tensor(more));
      try {
        kv.barrier();
      } catch (const Error& error) {
        text = name(error.code());
      }
      called = true;
      called.notify_all();
    });
    called.wait(false);
    second.wait();
    return text;
  }) == Said{"invalid_argument"});
}
