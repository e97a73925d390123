// Every error that users of dist_sync_mpi can meet comes on every rank, names key, ranks and
// values, and leaves the store usable where the design says so. Which test shows which:
//
//   shape, dtype, op, root, kind of call    here
//   device kind                             unit/coordinator/negotiation_test.cc; here: no GPU
//   duplicate key, mixed kinds of key       here
//   keys with newlines, nulls and the like  hostile_keys_test.cc
//   unlike, empty or shifted tensors        here; unit/kvstore/checks_test.cc
//   a rank that never submits               here; fault/test_stop.py: the line that names it
//   methods that this type lacks            here
//   joined and missing roots                here
//   the store of a parent, after fork       here
//   unknown type string, misspelt variable  create_errors_test.cc
//   misspelt option of the program          unit/examples/settings_test.cc
//   options that differ                     create_errors_test.cc
//   version skew                            unit/runtime/skew_test.cc
//   world of the wrong size                 create_errors_test.cc
//   no memory for segments                  create_errors_test.cc
//   MPI level, MPI finalised too early      mpi_level_test.cc
//   a rank that dies                        fault/test_death.py
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using Catch::Contains;

namespace {

Error pushpull_error(KVStore& store, const Key& key, const Tensor& tensor,
                     CallOptions options = {}) {
  return error_of([&] { store.pushpull(key, tensor, tensor, options).wait(); });
}

bool is_refused_in_child(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const bool named = std::string(error.what()).find("fork") != std::string::npos;
    return error.code() == ErrorCode::unsupported && named;
  }
  return false;
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
  CHECK_THAT(dtype.what(), Contains("'d'") && Contains("rank 0 has f32") && Contains("i32"));
  const Error op = pushpull_error(*store, "o", f32, {.op = first ? ReduceOp::sum : ReduceOp::max});
  CHECK(op.code() == ErrorCode::mismatch);
  CHECK_THAT(op.what(), Contains("'o'") && Contains("rank 0 asks for sum") && Contains("max"));
  const Error root = error_of([&] { store->broadcast("r", f32, first ? 0 : 1).wait(); });
  CHECK(root.code() == ErrorCode::mismatch);
  CHECK_THAT(root.what(), Contains("'r'") && Contains("rank 0 names rank 0") && Contains("rank 1"));
  const Error kind = error_of(
      [&] { (first ? store->broadcast("k", f32, 0) : store->pushpull("k", f32, f32)).wait(); });
  CHECK(kind.code() == ErrorCode::mismatch);
  CHECK_THAT(kind.what(),
             Contains("'k'") && Contains("rank 0 calls broadcast") && Contains("pushpull"));
  const std::vector<Tensor> again = {f32};
  for (const char* const key : {"d", "o", "r", "k"}) store->pushpull(key, again, again).wait();
  check_alive(*store);
}

TEST_CASE("a key in flight cannot be used again, and is free before its Pending is done") {
  auto store = make_store();
  const int ranks = store->num_workers();
  float value = 0;
  const Tensor tensor(&value, {}, DType::f32);
  // In each turn one rank submits late. The others' key waits for it, and they have tried again
  // before it submits.
  for (int late = 0; late < std::min(ranks, 2) && ranks > 1; ++late) {
    if (store->rank() == late) {
      store->barrier();
      store->pushpull("twice", tensor, tensor).wait();
      continue;
    }
    const bool waits = store->rank() % 2 == 0;
    const Pending pending =
        waits ? store->allreduce_for(std::chrono::nanoseconds(1), {"twice"}, {tensor}, {tensor})
              : store->pushpull("twice", tensor, tensor);
    const Error error = error_of([&] { store->pushpull("twice", tensor, tensor); });
    CHECK(error.code() == ErrorCode::duplicate_key);
    CHECK_THAT(error.what(),
               Contains("'twice'") && Contains("rank " + std::to_string(store->rank())) &&
                   Contains(waits ? "its allreduce is not done" : "its pushpull is not done"));
    store->barrier();
    pending.wait();
  }
  const Error list = error_of([&] {
    store->pushpull(std::vector<Key>{"a", "a"}, {Values(tensor), Values(tensor)},
                    {Values(tensor), Values(tensor)});
  });
  CHECK(list.code() == ErrorCode::duplicate_key);
  CHECK_THAT(list.what(), Contains("'a'") && Contains("twice in one call"));
  check_alive(*store);
}

TEST_CASE("tensors that cannot be exchanged are refused at the call, and their key stays free") {
  auto store = make_store();
  std::vector<float> data(6);
  const Tensor tensor(data.data(), {2, 3}, DType::f32);
  const Tensor flat(data.data(), {6}, DType::f32);
  const Tensor gpu(data.data(), {2, 3}, DType::f32, {Device::Kind::gpu, 1});
  const auto refused = [&](const Values& ins, const Values& outs, ErrorCode code,
                           const std::string& value) {
    const Error error = error_of([&] { store->pushpull("w", ins, outs); });
    CHECK(error.code() == code);
    CHECK_THAT(error.what(), Contains("'w'") && Contains(value));
  };
  refused(tensor, flat, ErrorCode::invalid_argument, "(6)");
  CHECK_THAT(error_of([&] { store->allreduce("w", tensor, flat); }).what(),
             Contains("allreduce of key 'w'"));
  refused({tensor, flat}, tensor, ErrorCode::invalid_argument, "(6)");
  refused(tensor, Tensor(), ErrorCode::invalid_argument, "(0)");
  refused(gpu, gpu, ErrorCode::unsupported, "gpu(1)");
  const Error none = error_of([&] { store->reduce_scatter("w", tensor, Values{}); });
  CHECK(none.code() == ErrorCode::invalid_argument);
  CHECK_THAT(none.what(), Contains("'w'") && Contains("output"));
  const Error null = error_of([] { Tensor(nullptr, {2, 3}, DType::f32); });
  CHECK(null.code() == ErrorCode::invalid_argument);
  CHECK_THAT(null.what(), Contains("(2, 3)"));
  store->pushpull("w", tensor, tensor).wait();
  check_alive(*store);
}

TEST_CASE("a rank that is refused a tensor on a GPU keeps nobody from the key") {
  auto store = make_store();
  float value = 1;
  const Tensor cpu(&value, {}, DType::f32);
  const Tensor gpu(&value, {}, DType::f32, {Device::Kind::gpu, 0});
  if (store->rank() == 0) {
    CHECK(error_of([&] { store->pushpull("w", gpu, gpu); }).code() == ErrorCode::unsupported);
  }
  store->pushpull("w", cpu, cpu).wait();
  CHECK(value == static_cast<float>(store->num_workers()));
}

TEST_CASE("a forked child cannot use its parent's store, and the parent goes on") {
  auto store = make_store();
  float value = 1;
  float other = 1;
  const Tensor tensor(&value, {}, DType::f32);
  const Tensor in_flight(&other, {}, DType::f32);
  Options options = Options::from_env();
  options.ranks = {store->rank()};
  const auto group_of_one = make_store(options);
  // The last rank submits when all children are gone: until then the others' calls are not done.
  const bool late = store->rank() == store->num_workers() - 1;
  Pending pending;
  if (!late) pending = store->pushpull("in flight", in_flight, in_flight);
  const Bound bound = store->bind("w", tensor, tensor);
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = is_refused_in_child([&] { store->pushpull("w", tensor, tensor); }) &&
                 is_refused_in_child([&] { store->barrier(); }) &&
                 is_refused_in_child([&] { group_of_one->pushpull("w", tensor, tensor); }) &&
                 is_refused_in_child([&] { store->bind("w", tensor, tensor); });
    // In the first turn the child has its copy of the store. In the second turn it has dropped the
    // copy.
    for (int turn = 0; turn < 2 && !late; ++turn) {
      right = right && is_refused_in_child([&] { bound.start(); }) &&
              is_refused_in_child([&] { pending.wait(); }) &&
              is_refused_in_child([&] { pending.then([](const auto&) {}); });
      store.reset();
    }
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  store->barrier();
  if (late) pending = store->pushpull("in flight", in_flight, in_flight);
  pending.wait();
  CHECK(other == static_cast<float>(store->num_workers()));
  check_alive(*group_of_one);
  check_alive(*store);
}

TEST_CASE("a forked child that drops the store lets go of nothing that its parent's threads use") {
  auto store = make_store();
  // The last rank submits when all children are gone: until then the others' calls are not done.
  const bool late = store->rank() == store->num_workers() - 1;
  float value = 1;
  bool let_go = false;
  const auto submit = [&] {
    const Tensor tensor(std::shared_ptr<float>(&value, [&](float*) { let_go = true; }), {1},
                        DType::f32);
    return store->pushpull("in flight", tensor, tensor);
  };
  Pending pending;
  if (!late) pending = submit();
  const pid_t child = ::fork();
  if (child == 0) {
    pending = {};
    store.reset();
    ::_exit(let_go ? 1 : 0);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  store->barrier();
  if (late) pending = submit();
  pending.wait();
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
  check(error_of([&] { store->set_optimizer({.name = "sgd"}); }), "set_optimizer",
        "after pushpull");
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
