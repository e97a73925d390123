#include "ps/worker/outstanding_requests.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "ps/protocol/missing.h"
#include "unit/base/logged.h"
#include "unit/errors.h"

using namespace tutti;
using namespace tutti::ps;
using namespace std::chrono_literals;
using base::Clock;
using Catch::Contains;

namespace {

/// The calls of worker 1, and its questions about them to its two servers.
struct Asking {
  using Asked = std::vector<std::pair<std::size_t, FindMissing>>;
  using Recalled = std::vector<std::pair<std::size_t, Recall>>;

  std::shared_ptr<InFlightCall> begin(std::size_t answers,
                                      std::optional<Kind> kind = std::nullopt) {
    auto call = std::make_shared<InFlightCall>();
    call->key = "w";
    call->kind = kind;
    call->what = "push of key 'w'";
    call->completion = std::make_shared<base::Completion>(1, call->what);
    requests.begin(call, answers);
    return call;
  }
  /// The questions since the last look.
  Asked look(Clock::time_point at) {
    asked.clear();
    now = at;
    requests.look(at);
    return asked;
  }
  /// The recalls since the last time.
  Recalled recalls() { return std::exchange(recalled, {}); }

  Clock::time_point now = Clock::now();
  WorkerTally tally;
  Asked asked;
  Recalled recalled;
  OutstandingRequests requests{
      1,
      2,
      {.stall_report_after = 8s,
       .timeout = 40s,
       .answer_within = 40s,
       .send =
           [this](std::size_t server, const ToServer& said) {
             if (const auto* const question = std::get_if<FindMissing>(&said)) {
               asked.emplace_back(server, *question);
             } else {
               recalled.emplace_back(server, std::get<Recall>(said));
             }
           },
       .clock = [this] { return now; }},
      tally};
};

Failure push_not_made(std::vector<int> workers) {
  return not_made(std::move(workers), "push of key 'w'");
}

Error error_at_end(const std::shared_ptr<base::Completion>& completion) {
  try {
    completion->wait_until(Clock::now());
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "no error"};
}

}  // namespace

TEST_CASE("while nobody could answer the clocks of calls stand still, and do not go back further") {
  const Logged log;
  Asking worker;
  const auto call = worker.begin(1);
  const auto completion = call->completion;
  const auto begun = call->begun;
  worker.now += 32s;
  worker.requests.postpone(5s);
  worker.look(begun + 44s);
  CHECK_FALSE(completion->is_done());
  worker.requests.postpone(1h);
  CHECK(call->begun == worker.now);
  worker.look(worker.now + 40s);
  CHECK(completion->is_done());
}

TEST_CASE("a pull about which servers could not be asked in time has its time once more") {
  const Logged log;
  Asking worker;
  const auto call = worker.begin(1);
  const auto completion = call->completion;
  const auto begun = call->begun;
  worker.requests.add(0, call, 0, 1);
  // The process was stopped, or the server was away, until the pull's time was up.
  CHECK(worker.look(begun + 50s).size() == 1);
  CHECK_FALSE(completion->is_done());
  CHECK(worker.requests.due() <= begun + 90s);
  worker.look(begun + 89s);
  CHECK_FALSE(completion->is_done());
  SECTION("and is answered") {
    worker.requests.take(0, {1, {}, {}});
    CHECK_NOTHROW(completion->wait_until(Clock::now()));
  }
  SECTION("and no more than once") {
    worker.requests.postpone(0s);
    worker.look(begun + 90s);
    CHECK(error_at_end(completion).code() == ErrorCode::timeout);
  }
  SECTION("and later where nobody could answer again") {
    worker.requests.postpone(5s);
    worker.look(begun + 94s);
    CHECK_FALSE(completion->is_done());
    worker.look(begun + 95s);
    CHECK(completion->is_done());
  }
}

TEST_CASE("a push about which servers could not be asked in time is recalled all the same") {
  const Logged log;
  Asking worker;
  const auto call = worker.begin(1, Kind::push);
  worker.requests.add(0, call, 0, 1);
  worker.look(call->begun + 50s);
  CHECK(worker.recalls().size() == 1);
}

TEST_CASE("the requests of a pull that took too long leave the window") {
  const Logged log;
  Asking worker;
  const auto begun = worker.now;
  worker.requests.add(0, worker.begin(1), 0, 1, Window::least_bytes);
  CHECK_FALSE(worker.requests.window().lets_through(0));
  worker.look(begun + 35s);
  worker.look(begun + 40s);
  CHECK(worker.requests.window().lets_through(0));
}

TEST_CASE(
    "each server is asked once for a report which workers are missing, and again for the error") {
  const Logged log;
  Asking worker;
  const auto call = worker.begin(3);
  const auto completion = call->completion;
  const auto begun = call->begun;
  worker.requests.add(0, call, 0, 3);
  worker.requests.add(1, call, 1, 3);
  worker.requests.add(1, call, 2, 3);
  CHECK(worker.requests.due() == begun + 6s);
  CHECK(worker.look(begun + 5s).empty());
  const auto asked = worker.look(begun + 6s);
  REQUIRE(asked.size() == 2);
  CHECK(asked[0].first == 0);
  CHECK(asked[0].second.sequence == 2);
  CHECK(asked[0].second.piece == PieceName{"w", 0, 3});
  CHECK(asked[1].first == 1);
  CHECK(asked[1].second.sequence == 3);
  CHECK(asked[1].second.piece == PieceName{"w", 1, 3});
  CHECK(worker.requests.due() == begun + 8s);
  CHECK(worker.look(begun + 7s).empty());
  worker.requests.take(1, {3, push_not_made({2}), {}});
  CHECK(worker.look(begun + 8s).empty());
  CHECK_THAT(log.text(), Contains("push of key 'w' has waited 8 s for server 1: worker 2 has not "
                                  "made its push of key 'w'"));
  CHECK(worker.requests.due() == begun + 12s);
  CHECK(worker.look(begun + 12s).size() == 2);
  CHECK(worker.look(begun + 16s).empty());
  CHECK(worker.look(begun + 27s).size() == 2);
  CHECK(worker.look(begun + 32s).empty());
  CHECK(worker.requests.due() == begun + 35s);
  CHECK(worker.look(begun + 35s).size() == 2);
  worker.requests.take(0, {5, push_not_made({2, 4}), {}});
  CHECK(worker.requests.due() == begun + 40s);
  worker.look(begun + 40s);
  const Error error = error_at_end(completion);
  CHECK(error.code() == ErrorCode::timeout);
  CHECK_THAT(error.what(), Contains("push of key 'w' was not answered by server 0 within 40 s "
                                    "(key_timeout, TUTTI_TIMEOUT_SECONDS): "
                                    "workers 2, 4 have not made their push of key 'w'"));
  CHECK(std::vector(error.ranks().begin(), error.ranks().end()) == std::vector{2, 4});
  REQUIRE(error.key() != nullptr);
  CHECK(*error.key() == Key("w"));
  CHECK_FALSE(worker.requests.due());
}

TEST_CASE("a missing worker is not named once the server has answered, or does not answer again") {
  const Logged log;
  Asking worker;
  const auto call = worker.begin(2);
  const auto completion = call->completion;
  const auto begun = call->begun;
  worker.requests.add(0, call, 0, 2);
  worker.requests.add(1, call, 1, 2);
  worker.look(begun + 6s);
  worker.requests.take(0, {2, push_not_made({1}), {}});
  worker.requests.take(0, {1, {}, {}});
  worker.look(begun + 8s);
  CHECK_THAT(log.text(), Contains("for server 1: has every worker made the same call?"));
  worker.requests.take(1, {2, push_not_made({1}), {}});
  worker.look(begun + 35s);
  worker.look(begun + 40s);
  const Error error = error_at_end(completion);
  CHECK_THAT(error.what(), Contains("was not answered by server 1 within 40 s (key_timeout, "
                                    "TUTTI_TIMEOUT_SECONDS): has every worker"));
  CHECK(error.ranks().empty());
}

TEST_CASE("servers are asked once about each call that is near its end") {
  Asking worker;
  const auto begun = worker.now;
  for (int i = 0; i < 10; ++i) {
    worker.now = begun + i * 1s;
    worker.requests.add(0, worker.begin(1), 0, 1);
  }
  // Calls that are over by then are not asked about.
  worker.requests.take(0, {4, {}, {}});
  CHECK(worker.look(begun + 37s).size() == 3);
  CHECK(worker.requests.due() == begun + 38s);
  CHECK(worker.look(begun + 39s).size() == 1);
  CHECK(worker.requests.due() == begun + 40s);
  CHECK(worker.look(begun + 39s).empty());
  CHECK(worker.look(begun + 40s).size() == 1);
  // Nobody could answer: what comes later counts.
  worker.requests.postpone(0s);
  CHECK(worker.look(begun + 40s).size() == 4);
}

TEST_CASE("an answer that names missing workers is of no use to a call that is over") {
  Asking worker;
  const auto call = worker.begin(1);
  const auto begun = call->begun;
  worker.requests.add(0, call, 0, 1);
  CHECK(worker.look(begun + 35s).size() == 1);
  worker.look(begun + 40s);
  worker.requests.take(0, {2, push_not_made({1}), {}});
  worker.requests.take(0, {1, {}, {}});
  CHECK(worker.requests.empty());
}

TEST_CASE("a question about a setting names no piece") {
  Asking worker;
  const auto call = worker.begin(1);
  call->key.reset();
  worker.requests.add(1, call, 0, 1);
  const auto asked = worker.look(call->begun + 6s);
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].first == 1);
  CHECK_FALSE(asked[0].second.piece);
}
