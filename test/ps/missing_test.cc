// A call that one worker does not make: the others hear which one it is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <functional>
#include <latch>
#include <string>
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

Options impatient() {
  Options options = LocalJob::options();
  options.key_timeout = 3s;
  options.stall_report_after = 1s;
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

/// What the workers hear of a call that worker 2 makes when the others have given theirs up.
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
      type, impatient());
}

void push(KVStore& kv) {
  Floats gradient(8, 1);
  kv.push({"w"}, {tensor(gradient)}).wait();
}

}  // namespace

TEST_CASE("a worker that does not push is named in the others' reports and errors") {
  const Logged log;
  // A piece on each server.
  LocalJob job({.workers = workers, .servers = 2, .big_count = 4});
  const auto heard = heard_of(job, push);
  for (const int other : {0, 1}) {
    CHECK_THAT(heard[static_cast<std::size_t>(other)],
               Contains("ranks 2; timeout: push of key 'w' was not answered by server ") &&
                   Contains(" within 3 s: worker 2 has not made its push of key 'w'; every worker "
                            "has to make the same calls"));
  }
  // Its push meets those that the others had sent.
  CHECK(heard[late] == "no error");
  CHECK_THAT(log.text(), Contains("push of key 'w' has waited ") &&
                             Contains(": worker 2 has not made its push of key 'w'"));
  CHECK(job.ends() == std::vector<std::string>{"", "", ""});
}

TEST_CASE("a worker that does not set the optimizer is named in the others' errors") {
  const Logged log;
  LocalJob job({.workers = workers, .servers = 2});
  const auto heard = heard_of(job, [](KVStore& kv) {
    kv.set_optimizer({"sgd", {{"learning_rate", 1}}});
  });
  for (const int other : {0, 1}) {
    CHECK_THAT(heard[static_cast<std::size_t>(other)],
               Contains("ranks 2; timeout: set_optimizer was not answered by server ") &&
                   Contains(": worker 2 has not made its call of set_optimizer"));
  }
  CHECK(heard[late] == "no error");
  CHECK_THAT(log.text(), Contains("set_optimizer has waited ") &&
                             Contains(": worker 2 has not made its call of set_optimizer"));
}

TEST_CASE("a pull behind a push that one worker has not made names it, too") {
  LocalJob job({.workers = workers, .servers = 1});
  const auto heard = heard_of(job, [](KVStore& kv) {
    Floats value(8, 1);
    const Pending pushed = kv.push({"w"}, {tensor(value)});
    kv.pull({"w"}, {tensor(value)}).wait();
  });
  CHECK_THAT(heard[0], Contains("ranks 2; timeout: pull of key 'w' was not answered by server 0 "
                                "within 3 s: worker 2 has not made its push of key 'w'"));
}

TEST_CASE("an asynchronous store names who is missing in what needs all") {
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

TEST_CASE("what is kept until it is acknowledged may be asked, too") {
  LocalJob job({.workers = workers, .servers = 2, .resends = true});
  const auto heard = heard_of(job, push);
  CHECK_THAT(heard[0], Contains("ranks 2; timeout: push of key 'w'"));
  CHECK(heard[late] == "no error");
  CHECK(job.ends() == std::vector<std::string>{"", "", ""});
}
