// One store after another in one job.
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <thread>

#include "ps/local_job.h"
#include "ps/sleeper.h"
#include "unit/errors.h"
#include "unit/folder.h"

using namespace tutti;
using base::Clock;
using Catch::Contains;
using Catch::StartsWith;
using Floats = std::vector<float>;
using Said = std::vector<std::string>;

namespace {

/// Makes the key, which no store before may have left behind, and sums once.
std::string init_and_sum(KVStore& kv) {
  Floats stored{5};
  Floats pushed{1};
  kv.init({"w"}, {tensor(stored)});
  kv.pushpull("w", tensor(pushed), tensor(pushed)).wait();
  return text_of(pushed);
}

}  // namespace

TEST_CASE("a worker that has closed its store creates another, with new keys") {
  LocalJob job({.workers = 1, .servers = 1});
  for (int turn = 0; turn < 3; ++turn) {
    CHECK(job.run(init_and_sum) == Said{"1"});
  }
  CHECK(job.ends() == Said{"", ""});
}

TEST_CASE("a call that meets the close of its store ends as it was done or as aborted") {
  LocalJob job({.workers = 1, .servers = 1});
  for (int turn = 0; turn < 20; ++turn) {
    CHECK(job.run([](KVStore& kv) {
      Floats stored{0};
      kv.init({"w"}, {tensor(stored)});
      std::atomic<int> done{0};
      std::string said;
      std::thread pushing([&] {
        Floats value{1};
        said = error_of([&] {
          for (;; ++done) kv.pushpull("w", tensor(value), tensor(value)).wait();
        });
      });
      while (done < 10) std::this_thread::yield();
      kv.close();
      pushing.join();
      return said.substr(0, said.find(':'));
    }) == Said{"aborted"});
  }
  CHECK(job.ends() == Said{"", ""});
}

TEST_CASE("each store of a job has the type that its workers ask for, and each worker its rank") {
  LocalJob job({.workers = 2, .servers = 2});
  for (const char* type : {"dist_sync", "dist_async", "dist_device_sync", "dist_async"}) {
    CHECK(job.run([](KVStore& kv) { return kv.type() + text_of({float(kv.rank())}); }, type) ==
          Said{std::string(type) + "0", std::string(type) + "1"});
  }
  const auto mismatch = [](const std::string& type) {
    return LocalJob::run_one([](KVStore&) { return "no error"; }, type);
  };
  std::string other;
  std::thread second([&] { other = mismatch("dist_async"); });
  const std::string one = mismatch("dist_sync");
  second.join();
  CHECK_THAT(one, StartsWith("mismatch: ") && Contains("all workers must ask for the same"));
  CHECK_THAT(other, StartsWith("mismatch: "));
}

TEST_CASE("a second store beside an open one is refused at once, and the first works on") {
  LocalJob job({.workers = 1, .servers = 1});
  auto first = KVStore::create("dist_sync", LocalJob::options());
  const auto begun = Clock::now();
  const std::string error = error_of([] { KVStore::create("dist_async", LocalJob::options()); });
  CHECK(Clock::now() - begun < std::chrono::seconds(5));
  CHECK_THAT(error, StartsWith("invalid_argument: this process has a store") &&
                        Contains("close that store first") && Contains("Python frees it"));
  CHECK(init_and_sum(*first) == "1");
  first->close();
  // It is closed, though the object is there.
  auto second = KVStore::create("dist_sync", LocalJob::options());
  CHECK(init_and_sum(*second) == "1");
  first.reset();
  CHECK_THAT(error_of([] { KVStore::create("dist_sync", LocalJob::options()); }),
             StartsWith("invalid_argument: this process has a store"));
  second.reset();
  CHECK(job.run(init_and_sum) == Said{"1"});
  CHECK(job.ends() == Said{"", ""});
}

TEST_CASE("where servers keep a state the next store goes on from the state of the one before") {
  const Folder folder;
  using When = Durability::When;
  const When when = GENERATE(When::off, When::each);
  LocalJob job({.workers = 2,
                .servers = 2,
                .big_count = 2,
                .durability = {.folder = folder.path(), .when = when}});
  const auto push = [](KVStore& kv) {
    Floats stored{5, 6};
    Floats pushed{1, 2};
    kv.set_optimizer({"sgd", {{"learning_rate", 1}, {"momentum", 0.5}}, {}});
    kv.init({"w"}, {tensor(stored)});
    kv.pushpull("w", tensor(pushed), tensor(pushed)).wait();
    return text_of(pushed);
  };
  CHECK(job.run(push) == Said(2, "3 2"));
  // The momentum, too.
  CHECK(job.run(push) == Said(2, "0 -4"));
  CHECK(job.run(push) == Said(2, "-3.5 -11"));
  CHECK(job.ends() == Said(3, ""));
}

TEST_CASE(
    "after a job that a loss has ended a create names that loss at once, and the next one tries") {
  LocalJob job({.workers = 2, .servers = 1});
  std::optional<Sleeper> dying;
  std::thread other([&] { dying.emplace(job.job(), 1); });
  const std::string lost = LocalJob::run_one([&](KVStore& kv) {
    other.join();
    dying.reset();
    Floats values{1};
    return error_of([&] { kv.pushpull("g", tensor(values), tensor(values)).wait(); });
  });
  CHECK_THAT(lost, StartsWith("peer_lost: worker 1 is lost"));
  const auto create = [](std::chrono::milliseconds limit) {
    Options options = LocalJob::options();
    options.create_timeout = limit;
    return LocalJob::run_one([](KVStore&) { return "no error"; }, "dist_sync", options);
  };
  const auto begun = Clock::now();
  CHECK_THAT(create(std::chrono::seconds(30)),
             StartsWith("peer_lost: this process's parameter-server job has ended: ") &&
                 Contains("worker 1 is lost: its connection to the scheduler ended"));
  CHECK(Clock::now() - begun < std::chrono::seconds(10));
  CHECK_THAT(create(std::chrono::milliseconds(100)), StartsWith("timeout: "));
}
