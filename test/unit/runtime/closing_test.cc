// The messages of a store about ranks for which it waits.
#include <catch2/catch.hpp>

#include "../base/logged.h"
#include "thread_world.h"

using namespace tutti;
using namespace tutti::runtime;
using Catch::Contains;
using namespace std::chrono_literals;

namespace {

/// While it lives the log tells all.
struct Debugging {
  Debugging() { base::set_log_level("debug"); }
  ~Debugging() { base::set_log_level("warning"); }
  Debugging(const Debugging&) = delete;
  Debugging& operator=(const Debugging&) = delete;
};

/// Waits until the line has been logged, or for a while.
void await(const Logged& logged, const char* what) {
  const auto end = base::Clock::now() + 10s;
  while (logged.text().find(what) == std::string::npos && base::Clock::now() < end) {
    std::this_thread::sleep_for(5ms);
  }
}

}  // namespace

TEST_CASE("a close that is held up says what it waits for, not that other ranks have not come") {
  const Logged logged;
  Options options;
  options.stall_report_after = 50ms;
  with_sessions(2, options, [&](const Session& session) {
    if (session.rank() == 1) await(logged, "rank 0 leaves last");
  });
  CHECK_THAT(logged.text(),
             Contains("closing the store; nobody leaves before every rank has done all that was "
                      "planned, and rank 0 leaves last") &&
                 !Contains("have not come") && !Contains("gates entered"));
}

TEST_CASE("a stall is told by rank 0 alone, which names the rank that is missing") {
  const Logged logged;
  Options options;
  options.stall_report_after = 500ms;
  with_sessions(4, options, [&](Session& session) {
    if (session.rank() == 1) await(logged, "waiting for rank 1 at the barrier");
    session.barrier();
  });
  CHECK_THAT(logged.text(), !Contains("nothing has moved"));
}

TEST_CASE("in a long stall every rank says what it waits for") {
  const Logged logged;
  Options options;
  options.stall_report_after = 50ms;
  with_sessions(3, options, [&](Session& session) {
    if (session.rank() == 1) {
      await(logged, "a barrier; rank 0 answers when all have come, unless it is stopped");
    }
    session.barrier();
  });
  CHECK_THAT(logged.text(), Contains("rank 0 answers when all have come, unless it is stopped"));
}

TEST_CASE("the report of a stalled recv names the rank that has not sent, and no other") {
  const Logged logged;
  Options options;
  options.stall_report_after = 50ms;
  with_sessions(3, options, [&](Session& session) {
    float value = 0;
    const Tensor tensor(&value, {}, DType::f32);
    if (session.rank() == 1) session.receive(tensor, 2, 7, nullptr).wait();
    if (session.rank() != 2) return;
    await(logged, "by rank 1 from rank 2 waits for the send\n");
    session.send(tensor, 1, 7).wait();
  });
  CHECK_THAT(logged.text(),
             Contains("s; recv of 1 element of f32 with tag 7 by rank 1 from rank 2 waits for the "
                      "send\n") &&
                 !Contains("rank 0 answers"));
}

TEST_CASE("a stall at the debug level is told in lines that say something, each thing once") {
  const Logged logged;
  const Debugging debugging;
  Options options;
  options.stall_report_after = 50ms;
  with_sessions(2, options, [&](Session& session) {
    if (session.rank() == 1) await(logged, "rank 0: epoch 0");
    session.barrier();
  });
  const std::string text = logged.text();
  CHECK_THAT(text, Contains("other ranks have not come yet"));
  const auto of_rank_0 = text.find("rank 0: epoch 0");
  REQUIRE(of_rank_0 != text.npos);
  CHECK_THAT(text.substr(0, of_rank_0), !Contains("in a barrier"));
  CHECK_THAT(text, !Contains("last events: \n"));
}
