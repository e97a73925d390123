#include "base/completion.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "logged.h"
#include "tutti/error.h"
#include "tutti/pending.h"

using tutti::Error;
using tutti::ErrorCode;
using tutti::Pending;
using tutti::base::Completion;
using namespace std::chrono_literals;

namespace {

std::exception_ptr failure(const char* text, ErrorCode code = ErrorCode::timeout) {
  return std::make_exception_ptr(Error(code, text));
}

}  // namespace

TEST_CASE("a pending call is done after its last part") {
  auto completion = std::make_shared<Completion>(2, "test");
  const Pending pending(completion);
  completion->finish();
  CHECK_FALSE(pending.done());
  CHECK_FALSE(pending.wait_for(1ms));
  completion->finish();
  CHECK(pending.done());
  pending.wait();
}

TEST_CASE("a waiter in another thread wakes when the call is done") {
  auto completion = std::make_shared<Completion>(1, "test");
  std::thread finisher([&] { completion->finish(); });
  Pending(completion).wait();
  finisher.join();
}

TEST_CASE("every copy throws the first error, every time") {
  auto completion = std::make_shared<Completion>(2, "test");
  completion->finish(failure("first"));
  completion->finish(failure("second"));
  const Pending pending(completion);
  CHECK_THROWS_WITH(pending.wait(), "first");
  CHECK_THROWS_WITH(Pending(pending).wait_for(0s), "first");
}

TEST_CASE("callbacks run in order, once, with the outcome, also when added late") {
  auto completion = std::make_shared<Completion>(1, "test");
  const Pending pending(completion);
  std::string order;
  pending.then([&](const std::exception_ptr& error) { order += error ? "A" : "a"; });
  pending.then([&](const std::exception_ptr& error) { order += error ? "B" : "b"; });
  completion->finish(failure("x"));
  pending.then([&](const std::exception_ptr& error) { order += error ? "C" : "c"; });
  CHECK(order == "ABC");
}

TEST_CASE("waiting inside a callback is refused instead of hanging") {
  auto first = std::make_shared<Completion>(1, "first");
  auto second = std::make_shared<Completion>(1, "second");
  ErrorCode code{};
  Pending(first).then([&](const std::exception_ptr&) {
    try {
      Pending(second).wait();
    } catch (const Error& error) {
      code = error.code();
    }
  });
  first->finish();
  CHECK(code == ErrorCode::invalid_argument);
}

TEST_CASE("callbacks that were left for later come before those that were added since") {
  auto completion = std::make_shared<Completion>(1, "test");
  const Pending pending(completion);
  std::string order;
  pending.then([&](const std::exception_ptr&) {
    order += "a";
    pending.then([&](const std::exception_ptr&) { order += "c"; });
  });
  CHECK(completion->settle());
  pending.then([&](const std::exception_ptr&) { order += "b"; });
  CHECK(pending.done());
  CHECK(order.empty());
  completion->call_back();
  CHECK(order == "abc");
}

TEST_CASE("a thread that waits drives the call while there is a driver") {
  struct Finisher : tutti::base::Driver {
    void drive(const Completion& call, tutti::base::Clock::time_point) override {
      CHECK(call.is_waited_for());
      completion->finish();
    }
    std::shared_ptr<Completion> completion;
  };
  auto driver = std::make_shared<Finisher>();
  driver->completion = std::make_shared<Completion>(1, "test", driver);
  auto later = std::make_shared<Completion>(1, "test", driver);
  Pending(driver->completion).wait();
  driver.reset();
  CHECK_FALSE(Pending(later).wait_for(1ms));
}

TEST_CASE("a default pending call is done") {
  Pending().wait();
}

TEST_CASE("an error that nobody saw is logged, but for the end of a store, which has been") {
  const Logged logged;
  const auto drop = [](const std::exception_ptr& error) { Completion(1, "a push").finish(error); };
  drop(failure("the store has ended", ErrorCode::peer_lost));
  CHECK(logged.text().empty());
  drop(failure("it took too long"));
  CHECK_THAT(logged.text(), Catch::Contains("a push failed and nobody waited: it took too long"));
}
