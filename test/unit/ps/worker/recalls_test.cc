// A worker's side of calls that have reached their time limit.
#include "ps/worker/recalls.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ps/protocol/missing.h"
#include "ps/worker/outstanding_requests.h"
#include "unit/base/logged.h"
#include "unit/errors.h"

using namespace tutti;
using namespace tutti::ps;
using namespace std::chrono_literals;
using base::Clock;
using Catch::Contains;
using Step = Recall::Step;

namespace {

/// Worker 1 of a job with two servers.
struct Recalling {
  std::shared_ptr<InFlightCall> begin(std::size_t answers, std::optional<Kind> kind = Kind::push,
                                      bool is_setting = false) {
    auto call = std::make_shared<InFlightCall>();
    if (!is_setting) call->key = "w";
    call->kind = kind;
    call->is_setting = is_setting;
    call->what = is_setting ? "set_optimizer" : "push of key 'w'";
    call->completion = std::make_shared<base::Completion>(1, call->what);
    requests.begin(call, answers);
    return call;
  }
  /// Lets this time pass. Returns the recalls.
  std::vector<std::string> wait(Clock::duration time) {
    now += time;
    said.clear();
    requests.look(now);
    return said;
  }
  std::vector<std::string> hear(std::size_t server, const Answer& answer) {
    said.clear();
    requests.take(server, answer);
    return said;
  }

  const Logged log;
  Clock::time_point now = Clock::now();
  WorkerTally tally;
  std::vector<std::string> said;
  Failure reason;
  OutstandingRequests requests{
      1,
      2,
      {.stall_report_after = 1h,
       .timeout = 40s,
       .answer_within = 40s,
       .send =
           [this](std::size_t server, const ToServer& request) {
             const auto* const recall = std::get_if<Recall>(&request);
             if (recall == nullptr) return;
             static constexpr std::array steps{"hold", "release", "give up"};
             said.push_back(fmt::format("{} {} at {}",
                                        steps.at(static_cast<std::size_t>(recall->step)),
                                        recall->request, server));
             if (recall->failure) reason = *recall->failure;
             last = recall->sequence;
           },
       .clock = [this] { return now; }},
      tally};
  std::uint64_t last = 0;  ///< the number of the last recall
};

using Said = std::vector<std::string>;

Failure missing(std::vector<int> workers) {
  return not_made(std::move(workers), "push of key 'w'");
}

std::string end_of(const std::shared_ptr<base::Completion>& completion) {
  if (!completion->is_done()) return "not over";
  return error_of([&] { completion->wait_until(Clock::now()); });
}

}  // namespace

TEST_CASE("a call is given up once all servers hold it, and ends when they have answered") {
  Recalling worker;
  const auto call = worker.begin(2);
  const auto completion = call->completion;
  worker.requests.add(0, call, 0, 2);
  worker.requests.add(1, call, 1, 2);
  // Before, it has asked who is missing.
  CHECK(worker.wait(39s).empty());
  CHECK(worker.wait(1s) == Said{"hold 1 at 0", "hold 1 at 1"});
  CHECK(call->is_undecided);
  CHECK(worker.hear(0, {worker.last, missing({0}), {}}).empty());
  CHECK(worker.hear(1, {worker.last, missing({0, 3}), {}}) ==
        Said{"give up 1 at 0", "give up 1 at 1"});
  CHECK_FALSE(call->is_undecided);
  CHECK(worker.reason.text ==
        "push of key 'w' was given up after 40 s (key_timeout, TUTTI_TIMEOUT_SECONDS) on worker 1: "
        "workers 0, 3 have not made their push of key 'w'; it has failed on all workers, and all "
        "may make it again");
  CHECK(worker.reason.ranks == std::vector{0, 3});
  CHECK(end_of(completion) == "not over");
  // The servers had another worker's reason for one piece. All workers report the first piece's.
  worker.hear(1, {1, Failure{ErrorCode::timeout, "worker 2 gave it up", {0}}, {}});
  worker.hear(0, {1, worker.reason, {}});
  CHECK(end_of(completion) == "timeout: " + worker.reason.text);
  CHECK(worker.requests.empty());
}

TEST_CASE("a call of which a server has executed a piece goes on") {
  Recalling worker;
  const auto call = worker.begin(2);
  const auto completion = call->completion;
  worker.requests.add(0, call, 0, 2);
  worker.requests.add(1, call, 1, 2);
  worker.wait(39s);
  CHECK(worker.wait(1s) == Said{"hold 1 at 0", "hold 1 at 1"});
  worker.hear(1, {worker.last, missing({0}), {}});
  worker.hear(0, {1, {}, {}});
  CHECK(worker.hear(0, {worker.last, {}, {}}) == Said{"release 1 at 1"});
  CHECK(worker.wait(39s).empty());
  worker.hear(1, {1, {}, {}});
  CHECK(end_of(completion) == "no error");
}

TEST_CASE("a call that was executed in part, and the rest not in twice the time, ends the store") {
  Recalling worker;
  const auto call = worker.begin(3);
  worker.requests.add(0, call, 0, 3);
  worker.requests.add(1, call, 1, 3);
  worker.hear(0, {1, {}, {}});
  worker.wait(39s);
  CHECK(worker.wait(1s) == Said{"hold 1 at 1"});
  CHECK(worker.hear(1, {worker.last, missing({0}), {}}) == Said{"release 1 at 1"});
  std::string reason = "server 1 waits for it";
  SECTION("no more of it is executed") {}
  SECTION("another part of it is executed, and the last one not within that time again") {
    worker.wait(39s);
    worker.hear(1, {1, {}, {}});
    CHECK(worker.wait(39s).empty());
    reason = "worker 1 could not send the rest";
    SECTION("it was not sent") {}
    SECTION("it was sent") {
      worker.requests.add(0, call, 2, 3);
      reason = "server 0 waits for it";
    }
  }
  CHECK_THAT(error_of([&] { worker.wait(40s); }),
             Contains("peer_lost: push of key 'w' was executed in part") && Contains(reason));
}

TEST_CASE("an asynchronous push that was executed in part fails alone") {
  Recalling worker;
  const auto call = worker.begin(3);
  call->is_of_one = true;
  const auto completion = call->completion;
  worker.requests.add(0, call, 0, 3);
  worker.requests.add(1, call, 1, 3);
  worker.hear(0, {1, {}, {}});
  worker.wait(39s);
  CHECK(worker.wait(1s) == Said{"hold 1 at 1"});
  CHECK(worker.hear(1, {worker.last, missing({0}), {}}) == Said{"release 1 at 1"});
  const std::uint64_t last = worker.requests.add(1, call, 2, 3);
  CHECK(worker.wait(39s).empty());
  CHECK(worker.wait(1s) == Said{"give up 1 at 1", fmt::format("give up {} at 1", last)});
  worker.hear(1, {1, worker.reason, {}});
  worker.hear(1, {last, worker.reason, {}});
  CHECK_THAT(end_of(completion), Contains("timeout: push of key 'w' was given up") &&
                                     Contains("a part of it was executed") &&
                                     Contains("it has failed on this worker alone"));
}

TEST_CASE(
    "a call that all workers have made goes on, and is recalled a second time, which is the last") {
  Recalling worker;
  const auto call = worker.begin(1);
  const auto completion = call->completion;
  worker.requests.add(0, call, 0, 1);
  worker.wait(39s);
  worker.wait(1s);
  // Another worker holds it, too.
  CHECK(worker.hear(0, {worker.last, {}, {}}) == Said{"release 1 at 0"});
  CHECK(worker.wait(39s).empty());
  CHECK(worker.wait(1s) == Said{"hold 1 at 0"});
  std::string cause = "worker 2 has not made its push";
  SECTION("a worker is missing by then") {
    CHECK(worker.hear(0, {worker.last, missing({2}), {}}) == Said{"give up 1 at 0"});
  }
  SECTION("all are still there, and none of it was executed") {
    CHECK(worker.hear(0, {worker.last, {}, {}}) == Said{"give up 1 at 0"});
    cause = "all workers have made it, but another one held it too long";
  }
  worker.hear(0, {1, worker.reason, {}});
  CHECK_THAT(end_of(completion),
             Contains("timeout: push of key 'w' was given up") && Contains(cause));
}

TEST_CASE("the unsent parts of a call that is given up are withdrawn with the same words") {
  Recalling worker;
  const auto call = worker.begin(2);
  const auto completion = call->completion;
  worker.requests.add(0, call, 0, 2);
  worker.wait(39s);
  CHECK(worker.wait(1s) == Said{"hold 1 at 0"});
  CHECK(worker.hear(0, {worker.last, {}, {}}) == Said{"give up 1 at 0"});
  CHECK_THAT(worker.reason.text, Contains("worker 1 could not send all of it"));
  CHECK(call->withdrawn == worker.reason);
  worker.hear(0, {1, worker.reason, {}});
  CHECK(end_of(completion) == "not over");
  worker.requests.add(1, call, 1, 2);
  worker.hear(1, {1, worker.reason, {}});
  CHECK(end_of(completion) == "timeout: " + worker.reason.text);
}

TEST_CASE("a call of which nothing was sent is given up at once") {
  Recalling worker;
  const auto call = worker.begin(1);
  worker.wait(39s);
  CHECK(worker.wait(1s).empty());
  CHECK(call->withdrawn);
  CHECK_FALSE(call->is_undecided);
}

TEST_CASE("a server that does not say whether it holds a call, or how it ended, is lost") {
  Recalling worker;
  const auto call = worker.begin(1);
  worker.requests.add(1, call, 0, 1);
  worker.wait(39s);
  CHECK(worker.wait(1s) == Said{"hold 1 at 1"});
  const std::string lost =
      "peer_lost: server 1 is lost: push of key 'w' reached its time limit, and "
      "the server has not said how it ended within another 40 s, the longer one of key_timeout "
      "(TUTTI_TIMEOUT_SECONDS) and heartbeat_timeout (TUTTI_HEARTBEAT_SECONDS)";
  SECTION("it does not say whether it holds it") {
    CHECK(error_of([&] { worker.wait(40s); }) == lost);
  }
  SECTION("it does not say how it ended") {
    worker.wait(39s);
    worker.hear(1, {worker.last, missing({0}), {}});
    worker.wait(39s);
    CHECK(error_of([&] { worker.wait(1s); }) == lost);
  }
  SECTION("it was away meanwhile") {
    worker.now += 30s;
    worker.requests.postpone(30s);
    CHECK(worker.requests.due() <= worker.now + 40s);
    CHECK(worker.wait(39s).empty());
    CHECK(error_of([&] { worker.wait(1s); }) == lost);
  }
}

TEST_CASE("a pull behind a call that is recalled has its answer in a moment, and waits for that") {
  Recalling worker;
  const auto push = worker.begin(1);
  const auto pull = worker.begin(1, std::nullopt);
  const auto completion = pull->completion;
  worker.requests.add(0, push, 0, 1);
  worker.requests.add(0, pull, 0, 1);
  worker.wait(39s);
  CHECK(worker.wait(1s) == Said{"hold 1 at 0"});
  CHECK(end_of(completion) == "not over");
  CHECK(worker.requests.due() > worker.now);
  worker.hear(0, {worker.last, missing({0}), {}});
  worker.hear(0, {1, worker.reason, {}});
  CHECK(end_of(completion) == "not over");
  SECTION("the server answers it") {
    worker.hear(0, {2, {}, {}});
    CHECK(end_of(completion) == "no error");
  }
  SECTION("the server does not") {
    worker.wait(39s);
    CHECK(end_of(completion) == "not over");
    worker.wait(1s);
    CHECK_THAT(end_of(completion),
               Contains("timeout: push of key 'w' was not answered by server 0"));
  }
}

TEST_CASE(
    "the part of a setting that every worker has is recalled, and not the requests that prepare "
    "it") {
  Recalling worker;
  const auto call = worker.begin(3, std::nullopt, true);
  worker.requests.add(0, call, 0, 1, 0, true);
  worker.requests.add(0, call, 0, 2);
  worker.requests.add(1, call, 1, 2);
  worker.hear(0, {1, {}, {}});
  worker.wait(39s);
  CHECK(worker.wait(1s) == Said{"hold 2 at 0", "hold 1 at 1"});
  worker.hear(1, {worker.last, missing({0}), {}});
  CHECK(worker.hear(0, {worker.last + 1, missing({0}), {}}) ==
        Said{"give up 2 at 0", "give up 1 at 1"});
  CHECK_THAT(worker.reason.text, Contains("worker 0 has not made its call of set_optimizer"));
}

TEST_CASE("a setting that one server has failed ends alike at the other") {
  const bool asynchronous = GENERATE(false, true);
  Recalling worker;
  const auto call = worker.begin(2, std::nullopt, true);
  const auto completion = call->completion;
  call->counts_if_failed = asynchronous;
  worker.requests.add(0, call, 0, 2);
  worker.requests.add(1, call, 1, 2);
  worker.hear(
      0, {1, Failure{ErrorCode::mismatch, "worker 1 gave 'adam', and worker 0 'sgd'", {1}}, {}});
  CHECK(worker.wait(40s) == Said{"hold 1 at 1"});
  const Said said = worker.hear(1, {worker.last, missing({0}), {}});
  // The asynchronous one was counted at server 0, as its worker's n-th. So it has to be at
  // server 1.
  CHECK(said == Said{asynchronous ? "release 1 at 1" : "give up 1 at 1"});
  worker.hear(1, {1, {}, {}});
  CHECK_THAT(end_of(completion), Contains("mismatch: worker 1 gave 'adam', and worker 0 'sgd'"));
}
