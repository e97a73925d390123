// Deleters of tensors that call the store which drops them; run under mpirun with any number of
// ranks. What hangs is killed by its alarm.
#include <unistd.h>

#include <future>
#include <mutex>
#include <optional>

#include "store_fixture.h"

using namespace tutti;
using namespace store_test;

namespace {

constexpr unsigned longest_case = 30;  ///< seconds

/// A tensor's memory that calls its store when it is dropped, holding the program's lock.
struct Caller {
  explicit Caller(KVStore& store_) : store(store_) { ::alarm(longest_case); }
  ~Caller() { ::alarm(0); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  /// The store is soon the only one to hold it.
  Tensor make() {
    const auto deleter = [this](float* memory) {
      delete memory;
      begun = true;
      begun.notify_all();
      const std::lock_guard held(lock);
      asked = store.rank() >= 0 && store.counters().nodes > 0;
      try {
        const Tensor tensor(&value, {}, DType::f32);
        again = store.pushpull("again", tensor, tensor);
      } catch (const Error& error) {
        refused = error.code();
      }
      ++calls;
    };
    return {std::shared_ptr<float>(new float(1), deleter), {}, DType::f32};
  }

  KVStore& store;
  std::mutex lock;
  float value = 1;
  std::atomic<bool> begun{false};
  std::atomic<int> calls{0};
  bool asked = false;
  Pending again;
  std::optional<ErrorCode> refused;
};

Pending pushpull(KVStore& store, const Key& key, const Tensor& tensor) {
  return store.pushpull(key, tensor, tensor);
}

}  // namespace

TEST_CASE("when a call is done its tensors' deleters have run, and may have called the store") {
  const auto store = make_store();
  for (int round = 0; round < 50; ++round) {
    Caller caller(*store);
    float other = 1;
    const Pending first = pushpull(*store, "first", caller.make());
    Pending second;
    {
      // A thread that submits may move tensors that were submitted before.
      const std::lock_guard held(caller.lock);
      second = pushpull(*store, "second", Tensor(&other, {}, DType::f32));
    }
    first.wait();
    CHECK(caller.calls == 1);
    CHECK(caller.asked);
    CHECK_FALSE(caller.refused);
    second.wait();
    caller.again.wait();
    CHECK(caller.value == static_cast<float>(store->num_workers()));
  }
}

TEST_CASE("a deleter may take a lock that a thread holds while it waits for another call") {
  const auto store = make_store();
  for (int round = 0; round < 10; ++round) {
    Caller caller(*store);
    float other = 1;
    const Pending first = pushpull(*store, "first", caller.make());
    // The lock is taken only here. If the call is done at once, this thread is the last one that
    // has the tensor.
    std::unique_lock held(caller.lock);
    std::thread waiter([&] { first.wait(); });
    caller.begun.wait(false);
    pushpull(*store, "other", Tensor(&other, {}, DType::f32)).wait();
    held.unlock();
    waiter.join();
    CHECK(other == static_cast<float>(store->num_workers()));
    caller.again.wait();
  }
}

TEST_CASE("a deleter may call the store when its call fails") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  Caller caller(*store);
  const ReduceOp op = store->rank() == 0 ? ReduceOp::min : ReduceOp::max;
  const Pending failing = [&] {
    const Tensor tensor = caller.make();
    return store->pushpull("failing", tensor, tensor, {.op = op});
  }();
  CHECK(error_of([&] { failing.wait(); }).code() == ErrorCode::mismatch);
  CHECK(caller.calls == 1);
  caller.again.wait();
  CHECK(caller.value == static_cast<float>(store->num_workers()));
}

TEST_CASE("a deleter may call the store while it is closed, and its call ends") {
  auto store = make_store();
  const int ranks = store->num_workers();
  Caller caller(*store);
  const Key own = "own " + std::to_string(store->rank());
  const Pending alone = pushpull(*store, own, caller.make());
  store.reset();
  CHECK(caller.calls == 1);
  CHECK(caller.asked);
  if (ranks == 1) return;
  CHECK(error_of([&] { alone.wait(); }).code() == ErrorCode::aborted);
  // Refused at once, or accepted and ended with the store.
  if (!caller.refused) caller.refused = error_of([&] { caller.again.wait(); }).code();
  CHECK(caller.refused == ErrorCode::aborted);
}

TEST_CASE(
    "memory whose owner only notes it is given back though the communication thread is busy") {
  const auto store = make_store();
  std::promise<void> begun;
  std::promise<void> end;
  const auto block = [&](float* memory) {
    delete memory;
    begun.set_value();
    end.get_future().wait();
  };
  const Pending blocked =
      pushpull(*store, "blocked", {std::shared_ptr<float>(new float(1), block), {}, DType::f32});
  begun.get_future().wait();
  float value = 1;
  std::atomic<int> noted{0};
  const auto note = [](void* times) noexcept { ++*static_cast<std::atomic<int>*>(times); };
  const Pending quick =
      pushpull(*store, "quick",
               {std::shared_ptr<float>(&value, QuickDeleter{note, &noted}), {}, DType::f32});
  CHECK(quick.wait_for(std::chrono::seconds(10)));
  CHECK(noted == 1);
  CHECK(value == static_cast<float>(store->num_workers()));
  end.set_value();
  blocked.wait();
}
