// More elements than an int can count. Run under mpirun with two ranks; needs some memory.
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace {

constexpr std::int64_t count = (std::int64_t{1} << 31) + 5;
/// Two ranks' tensors, and room to spare.
constexpr long needed_kib = 3 * (count >> 10);
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

}  // namespace

int main() {
  using namespace tutti;
  const auto store = KVStore::create("dist_sync_mpi");
  // Rank 0 decides, for memory changes while ranks look.
  std::int64_t enough = available_kib() >= needed_kib ? 1 : 0;
  store->broadcast("enough", Tensor(&enough, {}, DType::i64), 0).wait();
  if (enough == 0) {
    if (store->rank() == 0) std::cout << "skipped: needs " << needed_kib << " KiB of memory\n";
    return skipped;
  }
  std::vector<std::int8_t> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(store->rank(), i);
  const Tensor tensor(values.data(), {count}, DType::i8);
  store->pushpull("sum", tensor, tensor).wait();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    wrong += values[i] != value_of(0, i) + value_of(1, i) ? 1 : 0;
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(store->rank(), i);
  store->broadcast("copy", tensor, 1).wait();
  for (std::size_t i = 0; i < values.size(); ++i) wrong += values[i] != value_of(1, i) ? 1 : 0;
  std::cout << "rank " << store->rank() << ": " << count << " elements, " << wrong << " wrong\n";
  return wrong == 0 ? 0 : 1;
}
