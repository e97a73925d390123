#include <sys/socket.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>

#include "net/sockets.h"
#include "ps/local_job.h"
#include "ps/scheduler_link.h"
#include "tutti/version.h"

using namespace tutti;
using Catch::Contains;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

/// As every rank of two says it.
Said twice(const std::string& text) {
  return {text, text};
}

/// A worker that joins the job and then does nothing.
class Sleeper {
 public:
  explicit Sleeper(const ps::Job& job, int rank) : link_(job, LocalJob::options(), poller_, 0) {
    link_.join({.role = ps::Role::worker,
                .rank = rank,
                .workers = job.company.workers,
                .servers = job.company.servers,
                .version = version(),
                .asynchronous = false,
                .address = {},
                .port = 0});
  }

 private:
  net::Poller poller_;
  ps::SchedulerLink link_;
};

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
    std::vector<Floats> values;
    std::vector<Pending> pendings;
    for (int i = 0; i < 20; ++i)
      values.push_back(Floats(4, 1.0F / static_cast<float>(i + 3 + kv.rank())));
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

TEST_CASE("an optimizer on the servers follows what was pushed before it") {
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
  std::mutex turn;
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

TEST_CASE("workers that disagree all get the same mismatch, and the store lives on") {
  LocalJob job({});
  const auto said = job.run([](KVStore& kv) {
    Floats values(kv.rank() == 0 ? 2 : 3, 1.0F);
    std::string text;
    try {
      kv.pushpull("g", tensor(values), tensor(values)).wait();
    } catch (const Error& error) {
      text = std::string(name(error.code())) + ": " + error.what();
    }
    values.resize(1);
    kv.pushpull("g", tensor(values), tensor(values)).wait();
    return text + " / " + text_of(values);
  });
  CHECK(said[0] == said[1]);
  CHECK_THAT(said[0], Contains("mismatch: key 'g': workers 1 said something else") &&
                          Contains("f32 (2)") && Contains("f32 (3)") && Contains("/ 2"));
}

TEST_CASE("push before init, init twice, and pull of an unknown key are errors on every worker") {
  LocalJob job({});
  const auto said = job.run([](KVStore& kv) {
    Floats values{1};
    std::string text;
    const auto attempt = [&](const auto& call) {
      try {
        call();
        text += "no error;";
      } catch (const Error& error) {
        text += std::string(error.what()) + ";";
      }
    };
    attempt([&] { kv.push({"w"}, {tensor(values)}).wait(); });
    attempt([&] { kv.pull({"w"}, {tensor(values)}).wait(); });
    kv.init({"w"}, {tensor(values)});
    attempt([&] { kv.init({"w"}, {tensor(values)}); });
    return text;
  });
  CHECK(said[0] == said[1]);
  CHECK_THAT(said[0], Contains("push of key 'w': it was never initialised") &&
                          Contains("pull of key 'w': it was never initialised") &&
                          Contains("init of key 'w': it is initialised already"));
}

TEST_CASE("a worker that closes its store aborts what needs it, and the others end well") {
  LocalJob job({});
  const auto said = job.run([](KVStore& kv) {
    Floats values{1};
    if (kv.rank() == 1) return std::string("left");
    kv.pushpull("g", tensor(values), tensor(values)).wait();
    return std::string("no error");
  });
  CHECK(said[1] == "left");
  CHECK_THAT(said[0], Contains("aborted: worker 1 has left the store"));
  CHECK(job.ends() == Said{"", "", ""});
}

TEST_CASE("a worker that dies is peer_lost on the others, by name") {
  LocalJob job({});
  std::string said;
  std::thread survivor([&] {
    said = LocalJob::run_one([](KVStore& kv) {
      Floats values{1};
      kv.pushpull("g", tensor(values), tensor(values)).wait();
      return "no error";
    });
  });
  { const Sleeper dying(job.job(), 1); }
  survivor.join();
  CHECK_THAT(said, Contains("peer_lost: worker 1 is lost: its connection to the scheduler ended"));
  CHECK(job.ends() == Said{"the job did not end well", "", ""});
}

TEST_CASE("processes that do not come are missed after create_timeout") {
  LocalJob job({.create_timeout = std::chrono::milliseconds(500)});
  std::string said;
  try {
    KVStore::create("dist_sync", LocalJob::options());
  } catch (const Error& error) {
    said = std::string(name(error.code())) + ": " + error.what();
  }
  CHECK_THAT(said, Contains("timeout: the scheduler gave up waiting: 1 of 2 workers and 2 of 2"));
  CHECK(job.ends()[0] == "the job did not end well");
}

TEST_CASE("who has another secret gets in nowhere, and the job goes on") {
  LocalJob job({.workers = 1, .servers = 1});
  ps::Job stranger = job.job();
  stranger.secret.fill(std::byte{7});
  try {
    const Sleeper refused(stranger, 0);
    FAIL("it got in");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::mismatch);
    CHECK_THAT(error.what(), Contains("does not know the job's secret"));
  }
  // Nor does what speaks otherwise.
  const net::Bytes noise(100'000, std::byte{0x41});
  const base::Fd caller = net::start_connecting("127.0.0.1", job.job().port, "");
  net::wait_writable(caller, base::Clock::now() + std::chrono::seconds(5));
  ::send(caller.get(), noise.data(), noise.size(), MSG_NOSIGNAL);
  CHECK(job.run([](KVStore& kv) {
    Floats values{1};
    kv.pushpull("g", tensor(values), tensor(values)).wait();
    return text_of(values);
  }) == Said{"1"});
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
