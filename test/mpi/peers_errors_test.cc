// How send and recv fail; run under mpirun with any number of ranks.
#include "peers_fixture.h"
#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using Catch::Contains;

TEST_CASE(
    "two ranks that disagree about dtype or size both get a mismatch, and the store lives on") {
  const auto store = make_store();
  if (store->num_workers() == 1) return;
  std::vector<double> data(6);
  const Tensor six(data.data(), {2, 3}, DType::f32);
  const Tensor four(data.data(), {4}, DType::f32);
  const Tensor wide(data.data(), {6}, DType::f64);
  for (const Tensor& other : {four, wide}) {
    if (store->rank() > 1) break;
    const Error error = error_of([&] {
      if (store->rank() == 0) return store->send(six, 1, 2).wait();
      store->recv(other, 0, 2).wait();
    });
    CHECK(error.code() == ErrorCode::mismatch);
    CHECK_THAT(error.what(), Contains("6 elements of f32") && Contains("rank 0") &&
                                 Contains("rank 1") && Contains("tag 2"));
    CHECK_THAT(error.what(), Contains(std::to_string(other.count()) + " elements of " +
                                      std::string(name(other.dtype()))));
  }
  if (store->rank() == 0) store->send(six, 1, 2).wait();
  if (store->rank() == 1) store->recv(six, 0, 2).wait();
  check_alive(*store);
}

namespace {

Options hasty() {
  Options options = Options::from_env();
  options.key_timeout = std::chrono::seconds(1);
  return options;
}

/// The call ends in a timeout that names this rank, and says this.
void check_late(const Pending& pending, int rank, const std::string& says) {
  const Error error = error_of([&] { pending.wait(); });
  CHECK(error.code() == ErrorCode::timeout);
  CHECK(std::vector<int>(error.ranks().begin(), error.ranks().end()) == std::vector<int>{rank});
  CHECK_THAT(error.what(), Contains("rank " + std::to_string(rank) + " " + says));
}

}  // namespace

TEST_CASE("a send or recv that its peer does not answer ends in a timeout that names it") {
  const auto patient = make_store();
  const auto store = make_store(hasty());
  if (store->num_workers() == 1) return;
  std::vector<float> data(6);
  const Tensor tensor(data.data(), {6}, DType::f32);
  if (store->rank() == 0) {
    const int last = store->num_workers() - 1;
    const Pending sent = store->send(tensor, last, 1);
    const Pending received = store->recv(tensor, last, 2);
    check_late(sent, last, "did not make the recv");
    check_late(received, last, "did not make the send");
  }
  patient->barrier();
  check_alive(*store);
}

TEST_CASE("a call whose counterpart was given up ends in a timeout, and the calls after it meet") {
  const auto patient = make_store();
  const auto store = make_store(hasty());
  if (store->num_workers() == 1) return;
  const int last = store->num_workers() - 1;
  const bool is_first = store->rank() == 0;
  const bool is_last = store->rank() == last;
  // The elements of the small one go along with its announcement.
  const std::size_t bytes = GENERATE(as<std::size_t>{}, 1000, 20'000);
  Bytes mine(bytes);
  Bytes theirs(bytes);
  mine.fill(store->rank(), 1);
  if (is_first) {
    const Pending given_up[] = {store->send(mine.tensor(), last, 1),
                                store->send(mine.tensor(), last, 2),
                                store->recv(theirs.tensor(), last, 3)};
    for (const Pending& pending : given_up) check_late(pending, last, "did not make");
  }
  patient->barrier();
  if (is_last) {
    check_late(store->recv(theirs.tensor(), 0, 1), 0, "gave up the send");
    check_late(store->recv(theirs.tensor(), any_rank, 2), 0, "gave up the send");
    // Between nodes a rank hears of a send once it makes a call, which may be too late.
    check_late(store->send(mine.tensor(), 0, 3), 0, "");
  }
  patient->barrier();
  mine.fill(store->rank(), 2);
  for (const int tag : {1, 2}) {
    if (is_first) store->send(mine.tensor(), last, tag).wait();
    if (is_last) store->recv(theirs.tensor(), tag == 1 ? 0 : any_rank, tag).wait();
    if (is_last) CHECK(theirs.are_from(0, 2));
  }
  if (is_first) store->recv(theirs.tensor(), last, 3).wait();
  if (is_first) CHECK(theirs.are_from(last, 2));
  if (is_last) store->send(mine.tensor(), 0, 3).wait();
  patient->barrier();
  check_alive(*store);
}

namespace {

/// One rank closes its store, while the others have called for it.
void close_meanwhile(KVStore& store, int closer) {
  std::vector<float> data(6);
  const Tensor tensor(data.data(), {6}, DType::f32);
  if (store.rank() == closer) {
    const Pending own = store.send(tensor, next_to(store), 8);
    store.close();
    const Error error = error_of([&] { own.wait(); });
    CHECK(error.code() == ErrorCode::aborted);
    CHECK_THAT(error.what(), Contains("has closed this store"));
    CHECK(error_of([&] { store.send(tensor, next_to(store), 8).wait(); }).code() ==
          ErrorCode::aborted);
    return;
  }
  const Pending sent = store.send(tensor, closer, 1);
  const Pending received = store.recv(tensor, closer, 2);
  for (const Pending& pending : {sent, received}) {
    const Error error = error_of([&] { pending.wait(); });
    CHECK(error.code() == ErrorCode::aborted);
    CHECK_THAT(error.what(), Contains("rank " + std::to_string(closer) + " has left the store"));
  }
  // Ranks that are there can still pass tensors to each other.
  if (store.num_workers() < 3) return;
  const int first = closer == 0 ? 1 : 0;
  if (store.rank() == first) store.send(tensor, first + 1).wait();
  if (store.rank() == first + 1) store.recv(tensor, first).wait();
}

}  // namespace

TEST_CASE("calls between two ranks that have not met are aborted when one of them closes") {
  const int ranks = make_store()->num_workers();
  if (ranks == 1) return;
  // Rank 0 leaves last.
  for (const int closer : {ranks - 1, 0}) close_meanwhile(*make_store(), closer);
}

TEST_CASE("a rank that there is not, this rank itself and a negative tag are refused at the call") {
  const auto store = make_store();
  std::vector<float> data(6);
  const Tensor tensor(data.data(), {2, 3}, DType::f32);
  const auto refused = [&](int rank, int tag, bool sends) {
    const Error error =
        error_of([&] { sends ? store->send(tensor, rank, tag) : store->recv(tensor, rank, tag); });
    CHECK(error.code() == ErrorCode::invalid_argument);
    return std::string(error.what());
  };
  const int ranks = store->num_workers();
  for (const bool sends : {true, false}) {
    CHECK_THAT(refused(ranks, 0, sends), Contains("rank " + std::to_string(ranks)) &&
                                             Contains("0 to " + std::to_string(ranks - 1)));
    CHECK_THAT(refused(store->rank(), 0, sends), Contains("this rank itself"));
    if (ranks > 1) CHECK_THAT(refused(next_to(*store), -3, sends), Contains("tag -3"));
  }
  CHECK_THAT(refused(any_rank, 0, true), Contains("rank -1"));
  if (ranks == 1) CHECK_THAT(refused(any_rank, 0, false), Contains("no other rank"));
  check_alive(*store);
}
