#pragma once
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace tutti {

/// Sorts the indices below `count`. `order` holds the result of an earlier call. Programs pass the
/// same lists again and again, so that order usually still holds, and checking it is cheaper than
/// sorting.
template <typename Less>
void sort_again(std::vector<std::size_t>& order, std::size_t count, const Less& less) {
  if (order.size() != count) {
    order.resize(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
  }
  if (!std::is_sorted(order.begin(), order.end(), less))
    std::sort(order.begin(), order.end(), less);
}

}  // namespace tutti
