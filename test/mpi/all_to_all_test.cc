// all_to_all; run under mpirun with any number of ranks. STORE_TEST_ROUNDS makes it longer.
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

/// The numbers of elements, ordered by sender and then by receiver.
using Counts = std::vector<std::size_t>;

/// Element `i` of the share that `from` sends `to`.
double value(int from, int to, std::size_t i) {
  return static_cast<double>(
      (static_cast<std::size_t>(from) * 31 + static_cast<std::size_t>(to) * 7 + i) % 101);
}

/// One all_to_all, its tensors and what must come of it.
class Trial {
 public:
  Trial(KVStore& store, std::string key, Counts counts, DType dtype, bool allocated = false)
      : store_(store), key_(std::move(key)), counts_(std::move(counts)) {
    in_ = make_tensor(store, sum(true), dtype, allocated);
    out_ = make_tensor(store, sum(false), dtype, allocated);
    fill();
  }

  Pending call(CallOptions options = {}) {
    return store_.all_to_all(key_, in_, out_, counts_, options);
  }
  /// Results that are wrong.
  std::size_t wrong() const {
    std::size_t wrong = 0;
    std::size_t at = 0;
    for (int from = 0; from < ranks(); ++from) {
      for (std::size_t i = 0; i < count(from, store_.rank()); ++i) {
        if (numbers::get(out_, at++) != value(from, store_.rank(), i)) ++wrong;
      }
    }
    return wrong;
  }
  const Tensor& in() const { return in_; }
  const Tensor& out() const { return out_; }

 private:
  int ranks() const { return store_.num_workers(); }
  std::size_t count(int from, int to) const {
    return counts_[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks()) +
                   static_cast<std::size_t>(to)];
  }
  std::size_t sum(bool sent) const {
    std::size_t all = 0;
    for (int other = 0; other < ranks(); ++other) {
      all += sent ? count(store_.rank(), other) : count(other, store_.rank());
    }
    return all;
  }
  void fill() {
    std::size_t at = 0;
    for (int to = 0; to < ranks(); ++to) {
      for (std::size_t i = 0; i < count(store_.rank(), to); ++i) {
        numbers::put(in_, at++, value(store_.rank(), to, i));
      }
    }
  }

  KVStore& store_;
  const std::string key_;
  const Counts counts_;
  Tensor in_, out_;
};

/// Shares of up to `most` elements, some of them empty; the same on all ranks.
Counts draw_counts(int ranks, std::size_t most, std::mt19937_64& random) {
  Counts counts(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks));
  for (std::size_t& count : counts) count = random() % 3 == 0 ? 0 : random() % (most + 1);
  return counts;
}

/// The eager limit of up to four ranks that run at once.
constexpr std::size_t eager_bytes = std::size_t{256} << 10;

/// One rank sends this many elements, and the others at most half as many. The result is the same
/// on all ranks.
Counts draw_counts_of(int ranks, std::size_t sent, std::mt19937_64& random) {
  const auto n = static_cast<std::size_t>(ranks);
  Counts counts = draw_counts(ranks, sent / n / 2, random);
  const auto row = counts.begin() + static_cast<std::ptrdiff_t>(random() % n * n);
  const auto rest = row + static_cast<std::ptrdiff_t>(random() % n);
  *rest = 0;
  *rest = sent - std::accumulate(row, row + ranks, std::size_t{0});
  return counts;
}

Counts equal_counts(int ranks, std::size_t count) {
  return Counts(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks), count);
}

/// All at once.
void check_all(std::deque<Trial>& trials) {
  std::vector<Pending> pending;
  pending.reserve(trials.size());
  for (Trial& trial : trials) pending.push_back(trial.call());
  for (const Pending& each : pending) each.wait();
  std::size_t wrong = 0;
  for (const Trial& trial : trials) wrong += trial.wrong();
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE(
    "every rank gets the share that each rank sends to it, whatever the sizes and the dtype") {
  auto store = make_store();
  std::mt19937_64 random(11);
  std::deque<Trial> trials;
  for (const DType dtype : all_dtypes) {
    for (const std::size_t most : {0U, 1U, 40U, 3000U}) {
      trials.emplace_back(*store, std::to_string(trials.size()),
                          draw_counts(store->num_workers(), most, random), dtype);
    }
    const std::size_t limit = eager_bytes / size_of(dtype);
    for (const std::size_t sent : {limit - 1, limit, limit + 1}) {
      trials.emplace_back(*store, std::to_string(trials.size()),
                          draw_counts_of(store->num_workers(), sent, random), dtype);
    }
  }
  check_all(trials);
}

TEST_CASE("shares of many chunks arrive whole, in shared memory or not") {
  auto store = make_store();
  std::mt19937_64 random(12);
  std::deque<Trial> trials;
  for (const bool allocated : {false, true}) {
    trials.emplace_back(*store, std::to_string(trials.size()),
                        draw_counts(store->num_workers(), 900'000, random), DType::f32, allocated);
    trials.emplace_back(*store, std::to_string(trials.size()),
                        equal_counts(store->num_workers(), 100'003), DType::f64, allocated);
  }
  check_all(trials);
}

TEST_CASE("whatever parts and slices an all_to_all is cut in, the shares are the same") {
  for (const std::size_t part_bytes : {0U, 1024U}) {
    for (const std::size_t slice_bytes : {64U, 1024U}) {
      Options options = Options::from_env();
      options.part_bytes = part_bytes;
      options.slice_bytes = slice_bytes;
      auto store = make_store(options);
      std::mt19937_64 random(13);
      std::deque<Trial> trials;
      for (const std::size_t most : {3U, 499U, 5000U}) {
        trials.emplace_back(*store, std::to_string(trials.size()),
                            draw_counts(store->num_workers(), most, random), DType::f64);
      }
      check_all(trials);
    }
  }
}

TEST_CASE("a matrix with one column gathers, and one with one row scatters") {
  auto store = make_store();
  const int ranks = store->num_workers();
  const auto n = static_cast<std::size_t>(ranks);
  std::deque<Trial> trials;
  for (std::size_t root = 0; root < n; ++root) {
    Counts gather(n * n);
    Counts scatter(n * n);
    for (std::size_t rank = 0; rank < n; ++rank) {
      gather[rank * n + root] = 1000 * rank + 5;
      scatter[root * n + rank] = 300 * (n - rank);
    }
    trials.emplace_back(*store, "gather" + std::to_string(root), gather, DType::i32);
    trials.emplace_back(*store, "scatter" + std::to_string(root), scatter, DType::i32);
  }
  check_all(trials);
}

TEST_CASE("the output of an all_to_all may be its input") {
  auto store = make_store();
  const int ranks = store->num_workers();
  const auto n = static_cast<std::size_t>(ranks);
  for (const std::size_t count : {3U, 70'001U}) {
    std::vector<float> values(count * n);
    for (int to = 0; to < ranks; ++to) {
      for (std::size_t i = 0; i < count; ++i) {
        values[static_cast<std::size_t>(to) * count + i] =
            static_cast<float>(value(store->rank(), to, i));
      }
    }
    const Tensor tensor(values.data(), {static_cast<std::int64_t>(values.size())}, DType::f32);
    store->all_to_all("w", tensor, tensor, equal_counts(ranks, count)).wait();
    std::size_t wrong = 0;
    for (int from = 0; from < ranks; ++from) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto right = static_cast<float>(value(from, store->rank(), i));
        if (values[static_cast<std::size_t>(from) * count + i] != right) ++wrong;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("ranks whose matrices of counts differ get an error that names them, all of them") {
  auto store = make_store();
  const int ranks = store->num_workers();
  if (ranks == 1) return;
  // All have the tensors that their own matrix asks for.
  Trial trial(*store, "w", equal_counts(ranks, store->rank() == ranks - 1 ? 5 : 4), DType::f32);
  const Error error = error_of([&] { trial.call().wait(); });
  CHECK(error.code() == ErrorCode::mismatch);
  CHECK_THAT(error.what(), Contains("'w': matrices of counts differ") &&
                               Contains("rank " + std::to_string(ranks - 1) + " passes"));
  CHECK(std::vector<int>(error.ranks().begin(), error.ranks().end()) ==
        std::vector<int>{ranks - 1});
  check_alive(*store);
}

TEST_CASE(
    "tensors that do not fit their matrix of counts are refused at the call, with the sizes") {
  auto store = make_store();
  const int ranks = store->num_workers();
  const auto n = static_cast<std::size_t>(ranks);
  const Tensor right = make_tensor(*store, 2 * n, DType::f32);
  const Tensor wrong = make_tensor(*store, 2 * n + 1, DType::f32);
  const Tensor other = make_tensor(*store, 2 * n, DType::i32);
  const Counts counts = equal_counts(ranks, 2);
  const auto refused = [&](const Tensor& in, const Tensor& out, const Counts& matrix) {
    const Error error = error_of([&] { store->all_to_all("w", in, out, matrix); });
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK_THAT(error.what(), Contains("all_to_all of key 'w'"));
    return std::string(error.what());
  };
  const std::string who = "rank " + std::to_string(store->rank());
  const std::string elements = std::to_string(2 * n) + " elements";
  CHECK_THAT(refused(wrong, right, counts), Contains(who + " sends " + elements));
  CHECK_THAT(refused(right, wrong, counts), Contains(who + " receives " + elements));
  CHECK_THAT(refused(right, other, counts), Contains("same dtype"));
  CHECK_THAT(refused(right, right, Counts(n * n + 1)), Contains("matrix has"));
  Counts huge = counts;
  huge[0] = ~std::size_t{0};
  CHECK_THAT(refused(right, right, huge), Contains("rank 0 sends more than 2^62"));
  check_alive(*store);
}

TEST_CASE("a rank that has joined fails an all_to_all") {
  auto store = make_store();
  const int ranks = store->num_workers();
  if (ranks > 1 && store->rank() != ranks - 1) {
    Trial trial(*store, "a", equal_counts(ranks, 4), DType::f32);
    const Error error = error_of([&] { trial.call().wait(); });
    CHECK(error.code() == ErrorCode::aborted);
    CHECK_THAT(error.what(), Contains("'a'") && Contains("no shares come") &&
                                 Contains("rank " + std::to_string(ranks - 1)));
  }
  store->join();
  check_alive(*store);
}

TEST_CASE("between nodes what an all_to_all sends is what the matrix says, and nothing else") {
  auto store = make_store();
  const int ranks = store->num_workers();
  const auto n = static_cast<std::size_t>(ranks);
  // Over all ranks.
  const auto sum = [&](std::int64_t number) {
    const Tensor tensor(&number, {}, DType::i64);
    store->pushpull("sum", tensor, tensor).wait();
    return number;
  };
  constexpr std::size_t count = 50'001;
  Trial trial(*store, "w", equal_counts(ranks, count), DType::f32);
  const std::uint64_t before = store->counters().bytes_between_nodes;
  trial.call().wait();
  const std::uint64_t after = store->counters().bytes_between_nodes;
  // Each rank counts the pairs of its node.
  const std::int64_t pairs_inside = sum(store->local_size());
  CHECK(sum(static_cast<std::int64_t>(after - before)) ==
        (static_cast<std::int64_t>(n * n) - pairs_inside) *
            static_cast<std::int64_t>(count * sizeof(float)));
  CHECK(trial.wrong() == 0);
}

TEST_CASE(
    "all_to_alls and other calls in a random order on each rank, with priorities, all come "
    "out right") {
  auto store = make_store();
  const std::uint64_t seed = agreed_seed();
  std::mt19937_64 shared(seed);
  std::mt19937_64 own(seed * 31 + static_cast<std::uint64_t>(store->rank()));
  constexpr std::size_t keys = 40;
  const int ranks = store->num_workers();
  std::vector<Counts> usual;
  for (std::size_t key = 0; key < keys; ++key) {
    usual.push_back(draw_counts(ranks, shared() % 8 == 0 ? 20'000 : 200, shared));
  }
  std::size_t wrong = 0;
  const char* const given = std::getenv("STORE_TEST_ROUNDS");
  const int rounds = given != nullptr ? std::atoi(given) : 20;
  for (int round = 0; round < rounds; ++round) {
    std::deque<Trial> trials;
    std::vector<std::vector<float>> sums(keys);
    // Some matrices change in every round.
    for (std::size_t key = 0; key < keys; ++key) {
      const bool changes = key % 5 == 0 && round > 10;
      trials.emplace_back(*store, "a" + std::to_string(key),
                          changes ? draw_counts(ranks, 300, shared) : usual[key], DType::f32);
      sums[key].assign(10 + key * 30, static_cast<float>(store->rank() + 1));
    }
    std::vector<std::size_t> order(2 * keys);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), own);
    std::vector<Pending> pending;
    for (const std::size_t at : order) {
      const CallOptions options{.priority = static_cast<int>(own() % 10)};
      const std::size_t key = at % keys;
      if (at < keys) {
        pending.push_back(trials[key].call(options));
        continue;
      }
      const Tensor tensor(sums[key].data(), {static_cast<std::int64_t>(sums[key].size())},
                          DType::f32);
      const std::string name = "s" + std::to_string(key);
      pending.push_back(key % 4 == 0 ? store->broadcast(name, tensor, 0, options)
                                     : store->pushpull(name, tensor, tensor, options));
    }
    for (const Pending& each : pending) each.wait();
    for (std::size_t key = 0; key < keys; ++key) {
      wrong += trials[key].wrong();
      const int of_all = ranks * (ranks + 1) / 2;
      const auto right = key % 4 == 0 ? 1.0F : static_cast<float>(of_all);
      for (const float sum : sums[key]) wrong += sum == right ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
  CHECK(store->counters().tensors_gathered == keys * static_cast<std::uint64_t>(rounds));
}

TEST_CASE("a rank that passes no output contributes to a pushpull and gets nothing") {
  auto store = make_store();
  const int ranks = store->num_workers();
  for (const std::size_t count : {3U, 300'000U}) {
    for (int root = 0; root < ranks; ++root) {
      const bool is_root = store->rank() == root;
      std::vector<float> values(count, static_cast<float>(store->rank() + 1));
      const Tensor tensor(values.data(), {static_cast<std::int64_t>(count)}, DType::f32);
      store->pushpull("w", tensor, is_root ? Values(tensor) : Values()).wait();
      const int right = is_root ? ranks * (ranks + 1) / 2 : store->rank() + 1;
      CHECK(std::count(values.begin(), values.end(), static_cast<float>(right)) ==
            static_cast<std::ptrdiff_t>(count));
    }
  }
}

TEST_CASE(
    "elements that cannot be added are moved as they are, and refused where they would be "
    "added") {
  auto store = make_store();
  const int ranks = store->num_workers();
  const auto n = static_cast<std::size_t>(ranks);
  for (const DType dtype : {DType::b8, DType::b16, DType::b32, DType::b64, DType::b128}) {
    for (const std::size_t each : {1U, 30'000U}) {
      const std::string key = std::string(name(dtype)) + ' ' + std::to_string(each);
      INFO(key);
      const auto bytes_of = [&](int rank) {
        std::vector<std::byte> bytes(n * each * size_of(dtype));
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          bytes[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank) * 31 + i / 256);
        }
        return bytes;
      };
      const auto tensor = [&](std::vector<std::byte>& bytes, std::size_t count) {
        return Tensor(bytes.data(), {static_cast<std::int64_t>(count)}, dtype);
      };
      std::vector<std::byte> mine = bytes_of(store->rank());
      std::vector<std::byte> told = mine;
      std::vector<std::byte> shares(mine.size());
      std::vector<std::byte> wholes(mine.size());
      const Pending pending[] = {
          store->broadcast("told " + key, tensor(told, n * each), ranks - 1),
          store->all_to_all("shares " + key, tensor(mine, n * each), tensor(shares, n * each),
                            equal_counts(ranks, each)),
          store->allgather("wholes " + key, tensor(mine, each), tensor(wholes, n * each))};
      for (const Pending& one : pending) one.wait();
      CHECK(told == bytes_of(ranks - 1));
      const std::size_t share = each * size_of(dtype);
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<std::byte> theirs = bytes_of(rank);
        const auto at = static_cast<std::size_t>(rank) * share;
        const auto for_me = static_cast<std::size_t>(store->rank()) * share;
        CHECK(std::memcmp(shares.data() + at, theirs.data() + for_me, share) == 0);
        CHECK(std::memcmp(wholes.data() + at, theirs.data(), share) == 0);
      }
      const Error error =
          error_of([&] { store->pushpull("sum", tensor(mine, n * each), tensor(mine, n * each)); });
      CHECK(error.code() == ErrorCode::invalid_argument);
      CHECK_THAT(error.what(), Contains("pushpull of key 'sum'") && Contains(name(dtype).data()) &&
                                   Contains("cannot be added") && Contains("broadcast"));
    }
  }
  check_alive(*store);
}
