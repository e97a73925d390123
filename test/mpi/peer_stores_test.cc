// send and recv in several stores of the same ranks, which share a communicator between nodes.
#include <thread>

#include "store_fixture.h"

using namespace tutti;
using namespace store_test;

namespace {

Tensor one(float& number) {
  return {&number, {1}, DType::f32};
}

/// Every rank sends a number to the next one, and checks the number that it gets.
void pass_on(KVStore& store, float number) {
  const int ranks = store.num_workers();
  float sent = number + static_cast<float>(store.rank());
  float got = 0;
  const int before = (store.rank() + ranks - 1) % ranks;
  const Pending sending = store.send(one(sent), (store.rank() + 1) % ranks, 3);
  store.recv(one(got), before, 3).wait();
  sending.wait();
  CHECK(got == number + static_cast<float>(before));
}

}  // namespace

TEST_CASE("what is on its way when a store closes reaches no later store") {
  for (int number = 0; number < 6; ++number) {
    const auto store = make_store();
    const int ranks = store->num_workers();
    if (ranks == 1) return;
    for (int i = 0; i < 5; ++i) pass_on(*store, static_cast<float>(100 * number + i));
    // Nobody receives it.
    float left = 0;
    const Pending forgotten = store->send(one(left), (store->rank() + 1) % ranks, 3);
    store->barrier();
    // The ranks close one after the other, in both orders.
    const int turn = number % 2 == 0 ? store->rank() : ranks - 1 - store->rank();
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * turn));
    store->close();
    CHECK_THROWS_AS(forgotten.wait(), Error);
  }
}

TEST_CASE("two stores that are open at once keep their tensors apart") {
  const auto first = make_store();
  const auto second = make_store();
  const int ranks = first->num_workers();
  if (ranks == 1) return;
  const int next = (first->rank() + 1) % ranks;
  const int before = (first->rank() + ranks - 1) % ranks;
  for (int i = 0; i < 20; ++i) {
    float sent[] = {static_cast<float>(i), static_cast<float>(-i)};
    float got[] = {-1, 1};
    const Pending sendings[] = {first->send(one(sent[0]), next), second->send(one(sent[1]), next)};
    const Pending later = second->recv(one(got[1]), before);
    first->recv(one(got[0]), before).wait();
    later.wait();
    for (const Pending& sending : sendings) sending.wait();
    CHECK(got[0] == sent[0]);
    CHECK(got[1] == sent[1]);
  }
}
