// Every error that users of dist_sync_mpi can meet comes on every rank, names key, ranks and
// values, and leaves the store usable where the design says so.
#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using Catch::Contains;

namespace {

/// The store still works, on all ranks.
void check_alive(KVStore& store) {
  float value = 1;
  const Tensor tensor(&value, {}, DType::f32);
  store.pushpull("alive", tensor, tensor).wait();
  CHECK(value == static_cast<float>(store.num_workers()));
}

Error pushpull_error(KVStore& store, const Key& key, const Tensor& tensor,
                     CallOptions options = {}) {
  return error_of([&] { store.pushpull(key, tensor, tensor, options).wait(); });
}

}  // namespace

TEST_CASE("shapes that differ between ranks are an error on every rank that names both") {
  auto store = make_store();
  if (store->num_workers() == 1) return;
  std::vector<float> data(6);
  const bool odd = store->rank() == store->num_workers() - 1;
  const Tensor mine(data.data(), odd ? Shape{3, 2} : Shape{2, 3}, DType::f32);
  const Error error = pushpull_error(*store, "fc1_weight", mine);
  CHECK(error.code() == ErrorCode::mismatch);
  CHECK_THAT(error.what(), Contains("'fc1_weight'") && Contains("(2, 3)") && Contains("(3, 2)"));
  CHECK_THAT(error.what(), Contains(std::to_string(store->num_workers() - 1)));
  check_alive(*store);
  const Tensor right(data.data(), Shape{2, 3}, DType::f32);
  store->pushpull("fc1_weight", right, right).wait();
}

TEST_CASE("dtypes, operations, roots and kinds of call that differ are errors on every rank") {
  auto store = make_store();
  if (store->num_workers() == 1) return;
  const bool first = store->rank() == 0;
  std::vector<double> data(2);
  const Tensor f32(data.data(), {2}, DType::f32);
  const Tensor i32(data.data(), {2}, DType::i32);
  const Error dtype = pushpull_error(*store, "d", first ? f32 : i32);
  CHECK(dtype.code() == ErrorCode::mismatch);
  CHECK_THAT(dtype.what(), Contains("'d'") && Contains("f32") && Contains("i32"));
  const Error op = pushpull_error(*store, "o", f32, {.op = first ? ReduceOp::sum : ReduceOp::max});
  CHECK_THAT(op.what(), Contains("'o'") && Contains("sum") && Contains("max"));
  const Error root = error_of([&] { store->broadcast("r", f32, first ? 0 : 1).wait(); });
  CHECK(root.code() == ErrorCode::mismatch);
  CHECK_THAT(root.what(), Contains("'r'") && Contains("root"));
  const Error kind = error_of(
      [&] { (first ? store->broadcast("k", f32, 0) : store->pushpull("k", f32, f32)).wait(); });
  CHECK_THAT(kind.what(), Contains("'k'") && Contains("broadcast") && Contains("pushpull"));
  check_alive(*store);
}

TEST_CASE("a key in flight cannot be used again, and is free before its Pending is done") {
  auto store = make_store();
  float value = 0;
  const Tensor tensor(&value, {}, DType::f32);
  if (store->num_workers() > 1 && store->rank() == 0) {
    // The others have not submitted it yet, for they wait in the barrier.
    const Pending pending = store->pushpull("twice", tensor, tensor);
    const Error error = error_of([&] { store->pushpull("twice", tensor, tensor); });
    CHECK(error.code() == ErrorCode::duplicate_key);
    CHECK_THAT(error.what(), Contains("'twice'"));
    store->barrier();
    pending.wait();
  } else {
    store->barrier();
    store->pushpull("twice", tensor, tensor).wait();
  }
  const Error list = error_of([&] {
    store->pushpull(std::vector<Key>{"a", "a"}, {Values(tensor), Values(tensor)},
                    {Values(tensor), Values(tensor)});
  });
  CHECK(list.code() == ErrorCode::duplicate_key);
  CHECK_THAT(list.what(), Contains("'a'"));
  check_alive(*store);
}

TEST_CASE("integer and string keys do not mix in one store") {
  auto store = make_store();
  float value = 0;
  const Tensor tensor(&value, {}, DType::f32);
  store->pushpull("text", tensor, tensor).wait();
  const Error error = error_of([&] { store->pushpull(3, tensor, tensor); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK_THAT(error.what(), Contains("3") && Contains("integer") && Contains("string"));
  check_alive(*store);
}

TEST_CASE("methods that this type does not have say so and what to call instead") {
  auto store = make_store();
  float value = 0;
  const Tensor tensor(&value, {}, DType::f32);
  const auto check = [](const Error& error, const char* method, const char* instead) {
    CHECK(error.code() == ErrorCode::unsupported);
    CHECK_THAT(error.what(), Contains(method) && Contains("dist_sync_mpi") && Contains(instead));
  };
  check(error_of([&] { store->push({"k"}, {Values(tensor)}); }), "push", "pushpull");
  check(error_of([&] { store->pull({"k"}, {Values(tensor)}); }), "pull", "pushpull");
  check(error_of([&] { store->init({"k"}, {Values(tensor)}); }), "init", "broadcast");
  check(error_of([&] { store->set_optimizer("sgd"); }), "set_optimizer", "");
  check(error_of([&] { store->set_gradient_compression("2bit"); }), "2bit", "fp16");
  check_alive(*store);
}

TEST_CASE("a tensor that one rank never submits times out and names the missing rank") {
  Options options = Options::from_env();
  options.key_timeout = std::chrono::seconds(1);
  options.stall_report_after = std::chrono::milliseconds(200);
  auto store = make_store(options);
  if (store->num_workers() == 1) return;
  float value = 0;
  const Tensor tensor(&value, {}, DType::f32);
  const int last = store->num_workers() - 1;
  // The latecomer gets the same error instead of being paired with the others' next use.
  if (store->rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds(1600));
  const Error error = pushpull_error(*store, "late", tensor);
  CHECK(error.code() == ErrorCode::timeout);
  CHECK_THAT(error.what(), Contains("'late'") && Contains("rank " + std::to_string(last)));
  store->pushpull("late", tensor, tensor).wait();
  check_alive(*store);
}

TEST_CASE("options that differ between ranks fail create on every rank") {
  int ranks = 0;
  int rank = 0;
  {
    const auto store = make_store();
    ranks = store->num_workers();
    rank = store->rank();
  }
  if (ranks == 1) return;
  Options options = Options::from_env();
  options.fusion_bytes = rank == 0 ? 1000 : 2000;
  const Error error = error_of([&] { make_store(options); });
  CHECK(error.code() == ErrorCode::mismatch);
  CHECK_THAT(error.what(), Contains("TUTTI_FUSION_BYTES") && Contains("1000") && Contains("2000"));
  check_alive(*make_store());
}

TEST_CASE("a joined rank as root is an error, and so are roots that do not exist") {
  auto store = make_store();
  float value = 0;
  const Tensor tensor(&value, {}, DType::f32);
  const Error error = error_of([&] { store->broadcast("w", tensor, store->num_workers()); });
  CHECK(error.code() == ErrorCode::invalid_argument);
  CHECK_THAT(error.what(), Contains("root") && Contains(std::to_string(store->num_workers())));
  if (store->num_workers() > 1) {
    if (store->rank() != 0) {
      const Error joined = error_of([&] { store->broadcast("w", tensor, 0).wait(); });
      CHECK_THAT(joined.what(), Contains("'w'") && Contains("rank 0") && Contains("joined"));
    }
    store->join();
  }
  check_alive(*store);
}
