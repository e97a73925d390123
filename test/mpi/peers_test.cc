// send and recv, which concern two ranks; run under mpirun with any number of ranks.
#include <algorithm>
#include <deque>
#include <future>
#include <numeric>

#include "peers_fixture.h"
#include "store_fixture.h"

using namespace tutti;
using namespace store_test;

TEST_CASE("each rank passes a tensor on to the next one in a ring") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  for (const std::size_t count : {1U, 1000U, 70'000U, 3'000'000U}) {
    INFO(count << " bytes");
    Bytes mine(count);
    Bytes theirs(count);
    mine.fill(store->rank(), count);
    const Pending sent = store->send(mine.tensor(), next_to(*store));
    const Pending received = store->recv(theirs.tensor(), before(*store));
    received.wait();
    sent.wait();
    CHECK(theirs.are_from(before(*store), count));
    CHECK(mine.are_from(store->rank(), count));
  }
}

TEST_CASE("elements of any dtype travel unchanged, and so does a tensor without any") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8, DType::u8,
                            DType::i32, DType::i64}) {
    INFO(name(dtype));
    // All bit patterns, not numbers among them.
    Bytes mine(24 * size_of(dtype));
    Bytes theirs(24 * size_of(dtype));
    mine.fill(store->rank(), 1);
    const Tensor out(mine.memory.data(), {2, 3, 4}, dtype);
    const Tensor in(theirs.memory.data(), {24}, dtype);
    const Pending sent = store->send(out, next_to(*store), 4);
    store->recv(in, before(*store), 4).wait();
    sent.wait();
    CHECK(theirs.are_from(before(*store), 1));
  }
  const Tensor nothing(nullptr, {0, 5}, DType::f32);
  const Pending sent = store->send(nothing, next_to(*store));
  store->recv(nothing, before(*store)).wait();
  sent.wait();
}

TEST_CASE("sends with one tag are received in their order, whatever the order of other tags") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  constexpr std::size_t each = 20;
  constexpr int tags = 3;
  std::deque<Bytes> out;
  std::deque<Bytes> in;
  std::vector<Pending> pendings;
  for (int tag = 0; tag < tags; ++tag) {
    for (std::size_t i = 0; i < each; ++i) {
      out.emplace_back(100).fill(store->rank(), i + 1000 * static_cast<std::size_t>(tag));
      pendings.push_back(store->send(out.back().tensor(), next_to(*store), tag));
    }
  }
  for (int tag = tags; tag-- > 0;) {
    for (std::size_t i = 0; i < each; ++i) {
      in.emplace_back(100);
      pendings.push_back(store->recv(in.back().tensor(), before(*store), tag));
    }
  }
  for (const Pending& pending : pendings) pending.wait();
  auto received = in.begin();
  for (int tag = tags; tag-- > 0;) {
    for (std::size_t i = 0; i < each; ++i) {
      CHECK((received++)->are_from(before(*store), i + 1000 * static_cast<std::size_t>(tag)));
    }
  }
}

TEST_CASE("a recv from any rank says whose tensor it took") {
  const auto store = make_store();
  const int ranks = store->num_workers();
  if (ranks == 1) return;
  if (store->rank() > 0) {
    Bytes mine(500);
    mine.fill(store->rank(), 3);
    store->send(mine.tensor(), 0, 3).wait();
    return;
  }
  std::vector<int> sources;
  for (int i = 1; i < ranks; ++i) {
    Bytes theirs(500);
    int source = -1;
    store->recv(theirs.tensor(), any_rank, 3, &source).wait();
    CHECK(theirs.are_from(source, 3));
    sources.push_back(source);
  }
  std::sort(sources.begin(), sources.end());
  std::vector<int> others(static_cast<std::size_t>(ranks - 1));
  std::iota(others.begin(), others.end(), 1);
  CHECK(sources == others);
}

TEST_CASE("a rank may wait for a recv before it makes the collective call that its peer waits in") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  std::vector<float> data(1000);
  const Tensor a(data.data(), {500}, DType::f32);
  const Tensor b(data.data() + 500, {500}, DType::f32);
  float value = 0;
  const Tensor message(&value, {}, DType::f32);
  // After this many rounds the steps are replayed. Then the ranks deviate from the recorded order.
  for (int round = 0; round < 40; ++round) {
    const bool deviates = round % 8 == 7;
    const Pending second = store->pushpull("b", b, b);
    if (deviates && store->rank() == 0) {
      second.wait();
      value = static_cast<float>(round);
      store->send(message, 1).wait();
    }
    if (deviates && store->rank() == 1) {
      store->recv(message, 0).wait();
      CHECK(value == static_cast<float>(round));
    }
    store->pushpull("a", a, a).wait();
    second.wait();
  }
}

TEST_CASE("a callback may send and receive") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  Bytes mine(3000);
  Bytes theirs(3000);
  mine.fill(store->rank(), 1);
  std::promise<Pending> sent;
  std::promise<Pending> received;
  float value = 1;
  const Tensor sum(&value, {}, DType::f32);
  store->pushpull("sum", sum, sum).then([&](const std::exception_ptr& error) {
    CHECK_FALSE(error);
    sent.set_value(store->send(mine.tensor(), next_to(*store)));
    received.set_value(store->recv(theirs.tensor(), before(*store)));
  });
  sent.get_future().get().wait();
  received.get_future().get().wait();
  CHECK(theirs.are_from(before(*store), 1));
}

// This test is for a link that carries a megabyte a second. On other links it shows nothing.
TEST_CASE("a tensor may travel for longer than key_timeout", "[.slow-link]") {
  Options hasty = Options::from_env();
  hasty.key_timeout = std::chrono::seconds(1);
  const auto store = make_store(hasty);
  if (store->num_workers() == 1) return;
  Bytes bytes(2'500'000);
  if (store->rank() == 0) {
    bytes.fill(0, 1);
    store->send(bytes.tensor(), 1).wait();
  } else if (store->rank() == 1) {
    store->recv(bytes.tensor(), 0).wait();
    CHECK(bytes.are_from(0, 1));
  }
}
