#include "ps/requests.h"

#include <catch2/catch.hpp>

#include "unit/errors.h"

using namespace tutti;
using namespace tutti::ps;
using namespace std::chrono_literals;
using base::Clock;

TEST_CASE("while nobody could answer the clocks of calls stand still, and do not go back further") {
  Tally tally;
  Requests requests(1, {.stall_report_after = 1h, .timeout = 10s}, tally);
  const auto completion = std::make_shared<base::Completion>(1, "push");
  const auto call = std::make_shared<Call>();
  call->completion = completion;
  requests.begin(call, 1);
  const auto begun = call->begun - 8s;
  call->begun = begun;
  requests.postpone(5s);
  requests.look(begun + 14s);
  CHECK_FALSE(completion->is_done());
  requests.postpone(1h);
  CHECK(call->begun <= Clock::now());
  requests.look(Clock::now() + 10s);
  CHECK(completion->is_done());
}

TEST_CASE("what a call had sent that took too long leaves the window") {
  Tally tally;
  Requests requests(1, {.stall_report_after = 1h, .timeout = 10s}, tally);
  const auto call = std::make_shared<Call>();
  call->completion = std::make_shared<base::Completion>(1, "push");
  requests.begin(call, 1);
  requests.add(0, call, 0, 1, Window::least_bytes);
  CHECK_FALSE(requests.window().lets_through(0));
  requests.look(Clock::now() + 10s);
  CHECK(requests.window().lets_through(0));
}

TEST_CASE("what took too long is said of a setting to count still, and of nothing else") {
  for (const bool is_setting : {false, true}) {
    Tally tally;
    Requests requests(1, {.stall_report_after = 1h, .timeout = 10s}, tally);
    const auto completion = std::make_shared<base::Completion>(1, "set_optimizer");
    const auto call = std::make_shared<Call>();
    call->what = "set_optimizer";
    call->is_setting = is_setting;
    call->completion = completion;
    requests.begin(call, 1);
    requests.look(Clock::now() + 10s);
    const std::string text =
        text_of(ErrorCode::timeout, [&] { completion->wait_until(Clock::now()); });
    CHECK((text.find("do not call it again") != std::string::npos) == is_setting);
  }
}
