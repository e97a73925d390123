#include "benchmarks/meeting.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::bench {

std::vector<double> over_workers(KVStore& store, const std::vector<double>& mine, ReduceOp op) {
  std::vector<double> all = mine;
  for (int root = 0; root < store.num_workers(); ++root) {
    std::vector<double> theirs = mine;
    const auto count = static_cast<std::int64_t>(theirs.size());
    const Tensor tensor(theirs.data(), {count}, DType::f64);
    store.broadcast(fmt::format("numbers of worker {}", root), tensor, root).wait();
    if (root == store.rank()) continue;
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = op == ReduceOp::max ? std::max(all[i], theirs[i]) : all[i] + theirs[i];
    }
  }
  return all;
}

}  // namespace tutti::bench
