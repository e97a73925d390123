// More elements than an int can count. Run under mpirun with two ranks; needs some memory.
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace {

constexpr std::int64_t count = (std::int64_t{1} << 31) + 5;
/// Two tensors, private and allocated, of each of two ranks, and room to spare.
constexpr long needed_kib = 5 * (count >> 10);
constexpr int skipped = 77;

long available_kib() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    long kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib;
  }
  return 0;
}

/// Small enough that no sum leaves an int8_t.
std::int8_t value_of(int rank, std::size_t element) {
  return static_cast<std::int8_t>((element * 7 + element / 1000) % 40 * (rank == 0 ? 1U : 2U));
}

/// Sums and broadcasts; how many elements are wrong.
std::size_t wrong_in(tutti::KVStore& store, const tutti::Tensor& tensor) {
  const auto elements = tensor.count();
  auto* const values = tensor.as<std::int8_t>();
  const auto fill = [&] {
    for (std::size_t i = 0; i < elements; ++i) values[i] = value_of(store.rank(), i);
  };
  std::size_t wrong = 0;
  fill();
  store.pushpull("sum", tensor, tensor).wait();
  for (std::size_t i = 0; i < elements; ++i) {
    wrong += values[i] != value_of(0, i) + value_of(1, i) ? 1 : 0;
  }
  fill();
  store.broadcast("copy", tensor, 1).wait();
  for (std::size_t i = 0; i < elements; ++i) wrong += values[i] != value_of(1, i) ? 1 : 0;
  return wrong;
}

}  // namespace

int main() {
  using namespace tutti;
  // The tensor moves in one batch, although it is large.
  Options uncut = Options::from_env();
  uncut.part_bytes = 0;
  const auto store = KVStore::create("dist_sync_mpi", uncut);
  // Rank 0 decides, for memory changes while ranks look.
  std::int64_t enough = available_kib() >= needed_kib ? 1 : 0;
  store->broadcast("enough", Tensor(&enough, {}, DType::i64), 0).wait();
  if (enough == 0) {
    if (store->rank() == 0) std::cout << "skipped: needs " << needed_kib << " KiB of memory\n";
    return skipped;
  }
  std::size_t wrong = wrong_in(*store, store->allocate({count}, DType::i8));
  std::vector<std::int8_t> values(static_cast<std::size_t>(count));
  const Tensor tensor(values.data(), {count}, DType::i8);
  wrong += wrong_in(*store, tensor);
  // Private and allocated, each reduced and broadcast.
  const Counters counters = store->counters();
  const bool uncut_batches = counters.batches == 5;
  const auto cut = KVStore::create("dist_sync_mpi");
  wrong += wrong_in(*cut, tensor);
  std::cout << "rank " << store->rank() << ": " << count << " elements, " << wrong << " wrong, "
            << counters.batches << " batches, nodes " << counters.nodes << "\n";
  return wrong == 0 && uncut_batches ? 0 : 1;
}
