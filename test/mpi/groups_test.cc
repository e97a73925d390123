// Stores over some of the job's ranks. Every rank runs the same cases in the same order. A rank
// that is in no group of a case goes on to the next case.
#include <algorithm>
#include <set>

#include "../unit/base/stderr_of.h"
#include "store_fixture.h"

using namespace tutti;
using namespace store_test;
using Catch::Contains;

namespace {

std::unique_ptr<KVStore> over(std::vector<int> ranks) {
  Options options = Options::from_env();
  options.ranks = std::move(ranks);
  return make_store(options);
}

/// This process's rank in the whole job, and the job's size.
struct Place {
  int rank = 0;
  int size = 1;
};

Place place() {
  static const Place mine = [] {
    const auto store = make_store();
    return Place{store->rank(), store->num_workers()};
  }();
  return mine;
}

bool has(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

/// Tensors of many sizes in a random order of this rank's own; each must come out as the sum over
/// the store's ranks, which bring the values of their ranks in the job. Returns how many elements
/// do not; Catch's checks are for one thread.
[[nodiscard]] std::size_t exchange(KVStore& store, const std::vector<int>& ranks, int rounds,
                                   unsigned salt) {
  constexpr std::size_t keys = 24;
  std::mt19937 own(salt * 1000 + static_cast<unsigned>(place().rank));
  std::vector<std::vector<float>> data(keys);
  std::vector<std::size_t> order(keys);
  for (std::size_t key = 0; key < keys; ++key) order[key] = key;
  std::size_t wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), own);
    std::vector<Pending> pending;
    for (const std::size_t key : order) {
      data[key].resize(1 + key * key * 97);
      for (std::size_t i = 0; i < data[key].size(); ++i) {
        data[key][i] = value_of(place().rank, key, round, i);
      }
      const Tensor tensor(data[key].data(), {static_cast<std::int64_t>(data[key].size())},
                          DType::f32);
      pending.push_back(store.pushpull(static_cast<int>(key), tensor, tensor));
    }
    for (const Pending& one : pending) one.wait();
    for (std::size_t key = 0; key < keys; ++key) {
      for (std::size_t i = 0; i < data[key].size(); ++i) {
        float sum = 0;
        for (const int rank : ranks) sum += value_of(rank, key, round, i);
        wrong += data[key][i] != sum;
      }
    }
  }
  return wrong;
}

/// The ranks of this process's row and column in a mesh; none outside of it.
struct Mesh {
  std::vector<int> row, column;
};

Mesh mesh(int rows, int columns) {
  Mesh mesh;
  if (place().rank >= rows * columns) return mesh;
  for (int c = 0; c < columns; ++c) mesh.row.push_back(place().rank / columns * columns + c);
  for (int r = 0; r < rows; ++r) mesh.column.push_back(r * columns + place().rank % columns);
  return mesh;
}

}  // namespace

TEST_CASE("a group sums over its own ranks, which are 0, 1, ... in it") {
  std::vector<int> odd;
  for (int rank = 1; rank < place().size; rank += 2) odd.push_back(rank);
  if (!has(odd, place().rank)) return;
  std::vector<int> any_order = odd;
  std::reverse(any_order.begin(), any_order.end());
  const auto store = over(any_order);
  CHECK(store->rank() == place().rank / 2);
  CHECK(store->num_workers() == static_cast<int>(odd.size()));
  CHECK(exchange(*store, odd, 3, 1) == 0);
  double value = place().rank;
  store->broadcast(1000, Tensor(&value, {}, DType::f64), store->num_workers() - 1).wait();
  CHECK(value == odd.back());
  store->barrier();
  CHECK(store->join() < store->num_workers());
}

TEST_CASE("rows and columns of a mesh are busy at once, from a thread each") {
  for (const auto& [rows, columns] : {std::pair{2, 2}, {2, 3}, {4, 2}}) {
    if (place().size < rows * columns) continue;
    const Mesh mine = mesh(rows, columns);
    if (mine.row.empty()) continue;
    const auto row = over(mine.row);
    const auto column = over(mine.column);
    std::size_t wrong = 0;
    std::thread busy([&] { wrong = exchange(*row, mine.row, 10, 2); });
    CHECK(exchange(*column, mine.column, 10, 3) == 0);
    busy.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("threads may create stores over different groups at the same time") {
  if (place().size < 4) return;
  const Mesh mine = mesh(2, 2);
  if (mine.row.empty()) return;
  for (int round = 0; round < 5; ++round) {
    // No order holds between the two: half of the ranks come to the row first.
    std::size_t wrong = 0;
    std::thread other([&] {
      const auto row = over(mine.row);
      wrong = exchange(*row, mine.row, 1, 4);
    });
    const auto column = over(mine.column);
    CHECK(exchange(*column, mine.column, 1, 5) == 0);
    other.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("sixteen groups live side by side and each sums for itself") {
  std::mt19937 shared(7);
  std::vector<std::pair<std::vector<int>, std::unique_ptr<KVStore>>> stores;
  for (int group = 0; group < 16; ++group) {
    std::vector<int> ranks;
    for (int rank = 0; rank < place().size; ++rank) {
      if (shared() % 2 == 0 || rank == group % place().size) ranks.push_back(rank);
    }
    if (!has(ranks, place().rank)) continue;
    stores.emplace_back(ranks, over(ranks));
  }
  unsigned salt = 100;
  for (const auto& [ranks, store] : stores) CHECK(exchange(*store, ranks, 2, ++salt) == 0);
}

TEST_CASE("sixteen groups move data at once, from a thread each") {
  if (place().size < 2) return;
  const int half = (place().size + 1) / 2;
  std::vector<std::pair<std::vector<int>, std::unique_ptr<KVStore>>> stores;
  for (int group = 0; group < 16; ++group) {
    // Each group has the same number of ranks, side by side around a ring, and so shares ranks with
    // other groups.
    std::vector<int> ranks;
    for (int i = 0; i < std::max(2, half); ++i) ranks.push_back((group + i) % place().size);
    if (has(ranks, place().rank)) stores.emplace_back(ranks, over(ranks));
  }
  std::atomic<std::size_t> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(stores.size());
  for (const auto& one : stores) {
    threads.emplace_back([&] { wrong += exchange(*one.second, one.first, 2, 12); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("groups are created and closed while the store over all ranks moves data") {
  const auto all = make_store();
  std::vector<int> everyone(static_cast<std::size_t>(place().size));
  for (int rank = 0; rank < place().size; ++rank) everyone[static_cast<std::size_t>(rank)] = rank;
  std::size_t wrong = 0;
  std::thread busy([&] { wrong = exchange(*all, everyone, 30, 6); });
  for (int round = 0; round < 4; ++round) {
    std::vector<int> half;
    for (int rank = round % 2; rank < place().size; rank += 2) half.push_back(rank);
    if (!has(half, place().rank)) continue;
    const auto store = over(half);
    CHECK(exchange(*store, half, 2, 7) == 0);
  }
  busy.join();
  CHECK(wrong == 0);
}

TEST_CASE("the same ranks create one store after the other, and several at once") {
  if (place().size < 2 || place().rank > 1) return;
  for (int round = 0; round < 3; ++round) {
    const auto first = over({0, 1});
    const auto second = over({0, 1});
    CHECK(exchange(*second, {0, 1}, 2, 8) == 0);
    CHECK(exchange(*first, {0, 1}, 2, 9) == 0);
  }
}

TEST_CASE("a group of one rank records no timeline and says so when one is asked for") {
  Options options = Options::from_env();
  options.ranks = {place().rank};
  options.timeline = "trace.json";
  const std::string log = stderr_of([&] { make_store(options); });
  CHECK(lines_of(log).size() == 1);
  CHECK_THAT(log, Contains("one rank alone records no timeline") && Contains("'trace.json'"));
}

TEST_CASE("a group of one rank exchanges with itself and needs nobody") {
  // The ranks come to it one after the other, each while the others do something else.
  std::this_thread::sleep_for(std::chrono::milliseconds(20 * place().rank));
  const auto store = over({place().rank});
  CHECK(store->rank() == 0);
  CHECK(store->num_workers() == 1);
  CHECK(store->type() == "dist_sync_mpi");
  CHECK(exchange(*store, {place().rank}, 2, 10) == 0);
  store->barrier();
  CHECK(store->join() == 0);
  const Tensor shared = store->allocate({16}, DType::f32);
  const Tensor other = store->allocate({16}, DType::f32);
  std::fill_n(shared.as<float>(), 16, 2.0F);
  store->pushpull(1000, shared, {shared, other}).wait();
  CHECK(other.as<float>()[15] == 2);
  const Error error = error_of([&] { store->init({1}, {shared}); });
  CHECK(error.code() == ErrorCode::unsupported);
}

TEST_CASE("a list of ranks that cannot be is refused, and creates nothing") {
  const int size = place().size;
  const Error unknown = error_of([&] { over({place().rank, size}); });
  CHECK(unknown.code() == ErrorCode::invalid_argument);
  CHECK_THAT(unknown.what(), Contains("the job's ranks are 0 to " + std::to_string(size - 1)));
  const Error negative = error_of([&] { over({place().rank, -1}); });
  CHECK(negative.code() == ErrorCode::invalid_argument);
  const Error twice = error_of([&] { over({place().rank, place().rank}); });
  CHECK(twice.code() == ErrorCode::invalid_argument);
  CHECK_THAT(twice.what(), Contains("each once"));
  if (size < 2) return;
  const Error stranger = error_of([&] { over({(place().rank + 1) % size}); });
  CHECK(stranger.code() == ErrorCode::invalid_argument);
  CHECK_THAT(stranger.what(),
             Contains("rank " + std::to_string(place().rank) + " creates a store over"));
}

TEST_CASE("a group whose other ranks do not come times out, and can be created later") {
  if (place().size < 2 || place().rank > 1) return;
  if (place().rank == 0) {
    Options options = Options::from_env();
    options.ranks = {0, 1};
    options.create_timeout = std::chrono::milliseconds(300);
    const Error late = error_of([&] { make_store(options); });
    CHECK(late.code() == ErrorCode::timeout);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
  }
  const auto store = over({0, 1});
  CHECK(exchange(*store, {0, 1}, 1, 11) == 0);
}
