#include "base/completion.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "logged.h"
#include "tutti/error.h"
#include "tutti/pending.h"

using tutti::DeviceStream;
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

namespace {

/// Streams that are held back are only noted down.
struct NotedStreams : tutti::base::StreamOrder {
  void check(DeviceStream stream) const override {
    if (stream == captured) throw Error(ErrorCode::invalid_argument, "is captured");
  }
  void hold_back(DeviceStream stream) const override {
    CHECK(all_issued);
    held_back.push_back(stream);
  }

  DeviceStream captured;
  std::atomic<bool> all_issued{false};
  mutable std::vector<DeviceStream> held_back;
};

/// When a thread begins to wait for a call, issues the remaining parts of the call.
struct Issuer : tutti::base::Driver {
  void drive(const Completion&, tutti::base::Clock::time_point) override { FAIL("it drives"); }
  void wake(const Completion& call) override {
    CHECK(call.is_waited_for());
    later = std::thread([this] {
      streams->all_issued = true;
      completion->issue();
    });
  }
  ~Issuer() override {
    if (later.joinable()) later.join();
  }
  std::shared_ptr<NotedStreams> streams;
  std::shared_ptr<Completion> completion;
  std::thread later;
};

const DeviceStream a_stream = DeviceStream::per_thread();

}  // namespace

TEST_CASE("a stream waits for a call once the last copy of every part is issued") {
  const auto streams = std::make_shared<NotedStreams>();
  const auto driver = std::make_shared<Issuer>();
  driver->streams = streams;
  driver->completion = std::make_shared<Completion>(2, "test", driver, streams);
  driver->completion->issue();
  const Pending pending(driver->completion);
  pending.wait_on(a_stream);
  CHECK_FALSE(pending.done());
  CHECK(streams->held_back == std::vector{a_stream});
}

TEST_CASE("a stream need not wait for a call that is done, and is told of one that failed") {
  const auto streams = std::make_shared<NotedStreams>();
  const auto done = std::make_shared<Completion>(1, "test", std::weak_ptr<Issuer>(), streams);
  done->finish();
  Pending(done).wait_on(a_stream);
  const auto failed = std::make_shared<Completion>(2, "test", std::weak_ptr<Issuer>(), streams);
  failed->issue();
  failed->finish();
  failed->finish(failure("no peer"));
  CHECK_THROWS_WITH(Pending(failed).wait_on(a_stream), "no peer");
  CHECK(streams->held_back.empty());
}

TEST_CASE("a stream waits for a call on the CPU as a thread does") {
  auto completion = std::make_shared<Completion>(1, "test");
  std::thread finisher([&] { completion->finish(); });
  Pending(completion).wait_on(a_stream);
  CHECK(completion->is_done());
  finisher.join();
}

TEST_CASE("a stream that is captured, or none, is refused, of a finished call too") {
  const auto streams = std::make_shared<NotedStreams>();
  streams->captured = DeviceStream::legacy();
  const Pending pending(
      std::make_shared<Completion>(0, "a pull", std::weak_ptr<Issuer>(), streams));
  CHECK_THROWS_WITH(pending.wait_on(DeviceStream::legacy()), "is captured");
  CHECK_THROWS_WITH(
      pending.wait_on({}),
      Catch::Contains("wait_on of a pull got a DeviceStream that refers to no stream"));
}

TEST_CASE("waiting on a stream inside a callback is refused") {
  auto open = std::make_shared<Completion>(1, "open");
  CHECK_THROWS_WITH(
      [&] {
        const tutti::base::CallbackScope scope;
        Pending(open).wait_on(a_stream);
      }(),
      Catch::Contains("inside a callback"));
}

TEST_CASE("a thread that asks whether a call is done finds out where nobody else does") {
  struct Looker : tutti::base::Driver {
    void drive(const Completion&, tutti::base::Clock::time_point) override {}
    void ask(const Completion&) noexcept override {
      if (++looks == 2) completion->finish();
    }
    std::shared_ptr<Completion> completion;
    int looks = 0;
  };
  const auto driver = std::make_shared<Looker>();
  driver->completion = std::make_shared<Completion>(1, "test", driver);
  const Pending pending(driver->completion);
  CHECK_FALSE(pending.done());
  CHECK(pending.done());
  CHECK(pending.done());
  CHECK(driver->looks == 2);
}

TEST_CASE("a driver hears of callbacks that must wait, and of no others") {
  struct Attendant : tutti::base::Driver {
    void drive(const Completion&, tutti::base::Clock::time_point) override {}
    void attend(const Completion&) override { ++calls; }
    int calls = 0;
  };
  const auto driver = std::make_shared<Attendant>();
  const auto completion = std::make_shared<Completion>(1, "test", driver);
  int called = 0;
  Pending(completion).then([&](const std::exception_ptr&) { ++called; });
  CHECK(driver->calls == 1);
  completion->finish();
  Pending(completion).then([&](const std::exception_ptr&) { ++called; });
  CHECK(driver->calls == 1);
  CHECK(called == 2);
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
