// reduce_scatter and allgather against pushpull; run under mpirun with any number of ranks.
#include <algorithm>
#include <deque>
#include <numeric>

#include "numbers.h"
#include "store_fixture.h"
#include "tensors.h"

using namespace tutti;
using namespace store_test;
using Catch::Contains;

namespace {

/// Values whose sums are rounded in floats, so that their order shows.
void fill(const Tensor& tensor, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const double small = static_cast<double>(random() % 100 + 1);
    const bool whole = numbers::is_integer(tensor.dtype());
    numbers::put(tensor, i,
                 whole ? small : std::ldexp(std::floor(small), static_cast<int>(random() % 9) - 4));
  }
}

Shard own_shard(const KVStore& store, std::size_t count) {
  return shard(count, store.rank(), store.num_workers());
}

bool same(const Tensor& a, const void* b) {
  return a.bytes() == 0 || std::memcmp(a.data(), b, a.bytes()) == 0;
}

const std::byte* at(const Tensor& tensor, std::size_t element) {
  return tensor.as<std::byte>() + element * size_of(tensor.dtype());
}

/// Whether both halves give what pushpull gives, each by itself and one after the other.
struct Comparison {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;
  bool allocated = false;
  bool in_place = false;

  std::string describe() const {
    return std::string(name(dtype)) + ' ' + std::string(name(op)) + ' ' + std::to_string(count) +
           (allocated ? " allocated" : "") + (in_place ? " in place" : "");
  }
};

/// A comparison's tensors and calls, under keys of its own.
class Halves {
 public:
  Halves(KVStore& store, const Comparison& what, std::string key)
      : store_(store),
        what_(what),
        key_(std::move(key)),
        own_(own_shard(store, what.count)),
        in_(make_tensor(store, what.count, what.dtype, what.allocated)),
        sum_(make_tensor(store, what.count, what.dtype, what.allocated)),
        whole_(what.in_place ? in_ : make_tensor(store, what.count, what.dtype, what.allocated)),
        part_(what.in_place ? part_of(in_)
                            : make_tensor(store, own_.count(), what.dtype, what.allocated)) {
    fill(in_, what.count * 100 + static_cast<std::uint64_t>(store.rank()));
  }

  const Comparison& what() const { return what_; }
  Pending whole() { return store_.pushpull("whole" + key_, in_, sum_, {.op = what_.op}); }
  Pending first() { return store_.reduce_scatter("first" + key_, in_, part_, {.op = what_.op}); }
  Pending second() { return store_.allgather("second" + key_, part_, whole_); }
  bool first_is_right() const { return same(part_, at(sum_, own_.begin)); }
  bool second_is_right() const { return same(whole_, sum_.data()); }

 private:
  Tensor part_of(const Tensor& tensor) const {
    return {tensor.as<std::byte>() + own_.begin * size_of(tensor.dtype()),
            {static_cast<std::int64_t>(own_.count())},
            tensor.dtype()};
  }

  KVStore& store_;
  const Comparison what_;
  const std::string key_;
  const Shard own_;
  const Tensor in_, sum_, whole_, part_;
};

/// All at once, for on a busy machine each wait may be long: only a call that needs another's
/// result waits for it.
void check_all(KVStore& store, const std::vector<Comparison>& all) {
  std::deque<Halves> trials;
  for (const Comparison& each : all) {
    trials.emplace_back(store, each, std::to_string(trials.size()));
  }
  const auto run = [&](Pending (Halves::*call)()) {
    std::vector<Pending> pending;
    pending.reserve(trials.size());
    for (Halves& trial : trials) pending.push_back((trial.*call)());
    for (const Pending& each : pending) each.wait();
  };
  run(&Halves::whole);
  run(&Halves::first);
  for (const Halves& trial : trials) {
    INFO("reduce_scatter, " << trial.what().describe());
    CHECK(trial.first_is_right());
  }
  run(&Halves::second);
  for (const Halves& trial : trials) {
    INFO("allgather, " << trial.what().describe());
    CHECK(trial.second_is_right());
  }
}

}  // namespace

TEST_CASE("the two halves of every operation on every dtype give the bits of the whole") {
  auto store = make_store();
  std::vector<Comparison> all;
  for (const DType dtype : all_dtypes) {
    for (const ReduceOp op : all_ops) {
      for (const std::size_t count : {0U, 5U, 10'003U}) all.push_back({dtype, op, count});
    }
  }
  check_all(*store, all);
}

TEST_CASE("large, in place or not, in shared memory or not, the bits are those of the whole") {
  auto store = make_store();
  for (const std::size_t count : {300'007U, 3'000'001U}) {
    for (const bool allocated : {false, true}) {
      for (const bool in_place : {false, true}) {
        check_all(*store, {{DType::f32, ReduceOp::sum, count, allocated, in_place}});
      }
    }
  }
}

TEST_CASE("whatever parts and slices a tensor is cut in, the bits are those of the whole") {
  for (const std::size_t part_bytes : {0U, 1024U}) {
    for (const std::size_t slice_bytes : {64U, 1024U}) {
      Options options = Options::from_env();
      options.part_bytes = part_bytes;
      options.slice_bytes = slice_bytes;
      auto store = make_store(options);
      INFO("parts " << part_bytes << " slices " << slice_bytes);
      std::vector<Comparison> all;
      // The last is above what a node exchanges whole, with its gate; in slices of a cache line it
      // would take long.
      for (const std::size_t count : {3U, 499U, slice_bytes == 64U ? 0U : 70'001U}) {
        all.push_back({DType::f64, ReduceOp::sum, count});
        all.push_back({DType::f32, ReduceOp::average, count, true});
      }
      check_all(*store, all);
    }
  }
}

TEST_CASE("compressed, the two halves give the bits of the whole") {
  for (const char* const kind : {"fp16", "bf16"}) {
    auto store = make_store();
    store->set_gradient_compression(kind);
    INFO(kind);
    std::vector<Comparison> all;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
      for (const std::size_t count : {17U, 5003U, 200'003U}) all.push_back({DType::f32, op, count});
    }
    check_all(*store, all);
  }
}

TEST_CASE("several devices are reduced together, and each gets the result") {
  auto store = make_store();
  constexpr std::size_t count = 30'011;
  const Shard own = own_shard(*store, count);
  std::vector<Tensor> ins;
  std::vector<Tensor> sums;
  std::vector<Tensor> parts;
  std::vector<Tensor> wholes;
  for (std::uint64_t device = 0; device < 3; ++device) {
    ins.push_back(make_tensor(*store, count, DType::f32));
    fill(ins.back(), device * 50 + static_cast<std::uint64_t>(store->rank()));
    sums.push_back(make_tensor(*store, count, DType::f32));
    parts.push_back(make_tensor(*store, own.count(), DType::f32));
    wholes.push_back(make_tensor(*store, count, DType::f32));
  }
  store->pushpull("whole", ins, sums).wait();
  store->reduce_scatter("half", ins, parts).wait();
  store->allgather("other", parts, wholes).wait();
  for (std::size_t device = 0; device < 3; ++device) {
    CHECK(same(parts[device], at(sums[0], own.begin)));
    CHECK(same(wholes[device], sums[0].data()));
  }
}

TEST_CASE("halves and wholes in a random order on each rank, with priorities, all come out right") {
  auto store = make_store();
  const std::uint64_t seed = agreed_seed();
  std::mt19937_64 shared(seed);
  std::mt19937_64 own(seed * 31 + static_cast<std::uint64_t>(store->rank()));
  constexpr std::size_t keys = 60;
  const int ranks = store->num_workers();
  std::vector<std::size_t> counts(keys);
  for (auto& count : counts) count = shared() % 8 == 0 ? shared() % 20'000 : shared() % 300;
  std::vector<std::vector<float>> values(keys);
  std::vector<std::vector<float>> results(keys);
  std::size_t wrong = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::size_t> order(keys);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), own);
    std::vector<Pending> pending;
    const auto tensor = [](std::vector<float>& of) {
      return Tensor(of.data(), {static_cast<std::int64_t>(of.size())}, DType::f32);
    };
    for (const std::size_t key : order) {
      const Shard part = own_shard(*store, counts[key]);
      const bool gathers = key % 3 == 1;
      values[key].resize(gathers ? part.count() : counts[key]);
      results[key].assign(key % 3 == 0 ? part.count() : counts[key], -1);
      for (std::size_t i = 0; i < values[key].size(); ++i) {
        values[key][i] =
            value_of(gathers ? 0 : store->rank(), key, round, gathers ? part.begin + i : i);
      }
      const Tensor in = tensor(values[key]);
      const Tensor out = tensor(results[key]);
      const CallOptions options{.priority = static_cast<int>(own() % 10)};
      const int name = static_cast<int>(key);
      pending.push_back(key % 3 == 0 ? store->reduce_scatter(name, in, out, options)
                        : gathers    ? store->allgather(name, in, out, options)
                                     : store->pushpull(name, in, out, options));
    }
    for (const Pending& each : pending) each.wait();
    for (std::size_t key = 0; key < keys; ++key) {
      const std::size_t begin = key % 3 == 0 ? own_shard(*store, counts[key]).begin : 0;
      for (std::size_t i = 0; i < results[key].size(); ++i) {
        const float right =
            key % 3 == 1 ? value_of(0, key, round, i) : expected_sum(ranks, key, round, begin + i);
        if (results[key][i] != right) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(store->counters().tensors_reduced == 800);
  CHECK(store->counters().tensors_gathered == 400);
}

TEST_CASE("a list of keys goes in one call") {
  auto store = make_store();
  const std::vector<Key> keys{"a", "b"};
  std::vector<Values> ins;
  std::vector<Values> parts;
  std::vector<Values> wholes;
  for (const std::size_t count : {100U, 5U}) {
    const Tensor in = make_tensor(*store, count, DType::i32);
    for (std::size_t i = 0; i < count; ++i) numbers::put(in, i, static_cast<double>(i));
    ins.emplace_back(in);
    parts.emplace_back(make_tensor(*store, own_shard(*store, count).count(), DType::i32));
    wholes.emplace_back(make_tensor(*store, count, DType::i32));
  }
  store->reduce_scatter(keys, ins, parts).wait();
  store->allgather(keys, parts, wholes).wait();
  CHECK(numbers::get(wholes[0][0], 99) == 99 * store->num_workers());
  CHECK(numbers::get(wholes[1][0], 4) == 4 * store->num_workers());
}

TEST_CASE("between nodes each half sends each link what it must, and both what an allreduce does") {
  auto store = make_store();
  constexpr std::size_t count = 1 << 20;
  const Tensor in = make_tensor(*store, count, DType::f32);
  const Tensor whole = make_tensor(*store, count, DType::f32);
  const Tensor part = make_tensor(*store, own_shard(*store, count).count(), DType::f32);
  // Over all ranks.
  const auto bytes_of = [&](const auto& call) {
    const std::uint64_t before = store->counters().bytes_between_nodes;
    call().wait();
    auto bytes = static_cast<std::int64_t>(store->counters().bytes_between_nodes - before);
    const Tensor sum(&bytes, {}, DType::i64);
    store->pushpull("bytes", sum, sum).wait();
    return static_cast<double>(bytes);
  };
  const double scattered = bytes_of([&] { return store->reduce_scatter("half", in, part); });
  const double gathered = bytes_of([&] { return store->allgather("other", part, whole); });
  // All nodes together: each node's sum of every other node's shards, and each node's own to every
  // other: (nodes - 1) tensors.
  const double links = static_cast<double>(store->counters().nodes - 1);
  CHECK(scattered == links * static_cast<double>(in.bytes()));
  CHECK(gathered == links * static_cast<double>(in.bytes()));
}

TEST_CASE("an output or input that is no shard is refused at the call, with the right size") {
  auto store = make_store();
  const int ranks = store->num_workers();
  const std::size_t count = static_cast<std::size_t>(ranks) * 4 + 1;
  const Shard own = own_shard(*store, count);
  const Tensor whole = make_tensor(*store, count, DType::f32);
  const Tensor wrong = make_tensor(*store, own.count() + 1, DType::f32);
  const Tensor other = make_tensor(*store, own.count(), DType::i32);
  const std::string elements = std::to_string(own.begin) + " to " + std::to_string(own.end);
  const std::string size = "f32 of " + std::to_string(own.count()) + " elements";
  for (const Tensor& tensor : {wrong, other}) {
    const Error scatter = error_of([&] { store->reduce_scatter("w", whole, tensor); });
    CHECK(scatter.code() == ErrorCode::invalid_argument);
    CHECK_THAT(scatter.what(), Contains("reduce_scatter of key 'w'") && Contains(elements) &&
                                   Contains("the output must be " + size));
    const Error gather = error_of([&] { store->allgather("w", tensor, whole); });
    CHECK(gather.code() == ErrorCode::invalid_argument);
    CHECK_THAT(gather.what(), Contains("allgather of key 'w'") && Contains(elements) &&
                                  Contains("the input must be " + size));
  }
  check_alive(*store);
}

TEST_CASE("halves whose shapes or calls differ between ranks are errors on every rank") {
  auto store = make_store();
  if (store->num_workers() == 1) return;
  const bool first = store->rank() == 0;
  const std::size_t count = first ? 100 : 200;
  const Tensor in = make_tensor(*store, count, DType::f32);
  const Tensor part = make_tensor(*store, own_shard(*store, count).count(), DType::f32);
  const Error shape = error_of([&] { store->reduce_scatter("s", in, part).wait(); });
  CHECK(shape.code() == ErrorCode::mismatch);
  CHECK_THAT(shape.what(), Contains("'s'") && Contains("(100)") && Contains("(200)"));
  const Error kind = error_of([&] {
    (first ? store->allgather("k", part, in) : store->reduce_scatter("k", in, part)).wait();
  });
  CHECK(kind.code() == ErrorCode::mismatch);
  CHECK_THAT(kind.what(),
             Contains("'k': calls differ: rank 0 calls allgather") && Contains("reduce_scatter"));
  check_alive(*store);
}

TEST_CASE("a rank that has joined brings nothing to a reduce_scatter, and fails an allgather") {
  auto store = make_store();
  const int ranks = store->num_workers();
  constexpr std::size_t count = 1001;
  const Tensor whole = make_tensor(*store, count, DType::i32);
  const Tensor part = make_tensor(*store, own_shard(*store, count).count(), DType::i32);
  for (std::size_t i = 0; i < count; ++i) numbers::put(whole, i, static_cast<double>(i));
  if (store->rank() != ranks - 1 || ranks == 1) {
    store->reduce_scatter("w", whole, part).wait();
    const std::size_t begin = own_shard(*store, count).begin;
    const int active = std::max(ranks - 1, 1);
    CHECK(numbers::get(part, 0) == static_cast<double>(begin) * active);
  }
  if (ranks > 1 && store->rank() != ranks - 1) {
    const Error error = error_of([&] { store->allgather("g", part, whole).wait(); });
    CHECK(error.code() == ErrorCode::aborted);
    CHECK_THAT(error.what(), Contains("'g'") && Contains("rank " + std::to_string(ranks - 1)) &&
                                 Contains("joined"));
  }
  store->join();
  check_alive(*store);
}
