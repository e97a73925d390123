// A call that one worker does not make in time: it fails for all, who hear which worker it was.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "ps/local_job.h"
#include "unit/base/logged.h"

using namespace tutti;
using namespace std::chrono_literals;
using Catch::Contains;
using Floats = std::vector<float>;

namespace {

constexpr int workers = 3;
constexpr int late = 2;

Options quick_to_give_up() {
  Options options = LocalJob::options();
  options.key_timeout = 1500ms;
  options.stall_report_after = 500ms;
  return options;
}

/// "ranks 2; timeout: push of key ...".
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return fmt::format("ranks {}; {}: {}", fmt::join(error.ranks(), " "), name(error.code()),
                       error.what());
  }
  return "no error";
}

/// The errors that the workers get if worker 2 makes a call after the others have given theirs up.
std::vector<std::string> heard_of(LocalJob& job, const std::function<void(KVStore&)>& call,
                                  const std::string& type = "dist_sync") {
  std::latch given_up(workers - 1);
  return job.run(
      [&](KVStore& kv) {
        Floats value(8);
        kv.init({"w"}, {tensor(value)});
        if (kv.rank() == late) given_up.wait();
        std::string heard = error_of([&] { call(kv); });
        if (kv.rank() != late) given_up.count_down();
        return heard;
      },
      type, quick_to_give_up());
}

void push(KVStore& kv) {
  Floats gradient(8, 1);
  kv.push({"w"}, {tensor(gradient)}).wait();
}

}  // namespace

TEST_CASE("a push that one worker does not make in time fails for all, and names that worker") {
  const Logged log;
  // A piece on each server.
  LocalJob job({.workers = workers, .servers = 2, .big_count = 4});
  const auto heard = heard_of(job, push);
  for (const std::string& one : heard) {
    CHECK_THAT(one,
               Contains("ranks 2; timeout: push of key 'w' was given up after 1.5 s (key_timeout, "
                        "TUTTI_TIMEOUT_SECONDS) on worker ") &&
                   Contains(": worker 2 has not made its push of key 'w'; it has failed on all "
                            "workers, and all may make it again"));
  }
  CHECK(heard == std::vector<std::string>(workers, heard[0]));
  CHECK_THAT(log.text(), Contains("push of key 'w' has waited ") &&
                             Contains(": worker 2 has not made its push of key 'w'"));
  CHECK(job.ends() == std::vector<std::string>{"", "", ""});
}

TEST_CASE("a setting that one worker does not make in time fails for all, and names that worker") {
  const Logged log;
  LocalJob job({.workers = workers, .servers = 2});
  const auto heard = heard_of(job, [](KVStore& kv) {
    kv.set_optimizer({"sgd", {{"learning_rate", 1}}});
  });
  for (const std::string& one : heard) {
    CHECK_THAT(one, Contains("ranks 2; timeout: set_optimizer was given up after 1.5 s "
                             "(key_timeout, TUTTI_TIMEOUT_SECONDS) on worker ") &&
                        Contains(": worker 2 has not made its call of set_optimizer"));
  }
  CHECK(heard == std::vector<std::string>(workers, heard[0]));
  CHECK_THAT(log.text(), Contains("set_optimizer has waited ") &&
                             Contains(": worker 2 has not made its call of set_optimizer"));
}

TEST_CASE("a pull behind a push that fails by a time limit gets the value as it was") {
  LocalJob job({.workers = workers, .servers = 1});
  const auto heard = heard_of(job, [](KVStore& kv) {
    Floats value(8, 1);
    const Pending pushed = kv.push({"w"}, {tensor(value)});
    kv.pull({"w"}, {tensor(value)}).wait();
    // Catch2 takes assertions of one thread at a time.
    if (value != Floats(8, 0)) throw Error(ErrorCode::internal, "the pull got another value");
    pushed.wait();
  });
  CHECK_THAT(heard[0], Contains("ranks 2; timeout: push of key 'w' was given up"));
  CHECK(heard == std::vector<std::string>(workers, heard[0]));
}

TEST_CASE("a call that timed out is made again by all workers, whose sums are right") {
  for (const std::chrono::milliseconds lateness : {1500ms, 2500ms}) {
    Options options = quick_to_give_up();
    options.key_timeout = 1s;
    LocalJob job({.workers = 2, .servers = 1});
    const auto heard = job.run(
        [&](KVStore& kv) {
          std::string sums;
          float step_size = 1;
          for (int step = 0; step < 4; ++step, step_size *= 10) {
            if (kv.rank() == 0 && step == 1) std::this_thread::sleep_for(lateness);
            for (int attempt = 0; attempt < 5; ++attempt) {
              Floats value{step_size * static_cast<float>(kv.rank() + 1)};
              const std::string error =
                  error_of([&] { kv.pushpull("g", tensor(value), tensor(value)).wait(); });
              sums += error == "no error" ? text_of(value) + " " : "late ";
              if (error == "no error") break;
            }
          }
          return sums;
        },
        "dist_sync", options);
    CHECK(heard == std::vector<std::string>(
                       2, lateness == 1500ms ? "3 late 30 300 3000 " : "3 late late 30 300 3000 "));
  }
}

TEST_CASE("an asynchronous store names the missing workers in calls that need all") {
  LocalJob job({.workers = workers, .servers = 1});
  const auto heard = heard_of(
      job,
      [](KVStore& kv) {
        Floats value(8, 1);
        kv.broadcast("w", {tensor(value)}, 0).wait();
      },
      "dist_async");
  CHECK_THAT(heard[1], Contains("ranks 2; timeout: broadcast of key 'w'") &&
                           Contains("worker 2 has not made its broadcast of key 'w'"));
}

TEST_CASE("messages that are kept until they are acknowledged may ask for missing workers, too") {
  LocalJob job({.workers = workers, .servers = 2, .resends = true});
  const auto heard = heard_of(job, push);
  CHECK_THAT(heard[0], Contains("ranks 2; timeout: push of key 'w'"));
  CHECK(heard == std::vector<std::string>(workers, heard[0]));
  CHECK(job.ends() == std::vector<std::string>{"", "", ""});
}
