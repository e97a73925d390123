#include "training/spelling.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace training {
namespace {

/// Insertions, deletions and replacements that turn a into b.
std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::size_t> above(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row{i};
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row.push_back(std::min({replaced, above[j] + 1, row[j - 1] + 1}));
    }
    above = std::move(row);
  }
  return above.back();
}

}  // namespace

std::string nearest(const std::string& word, std::span<const std::string> known) {
  std::string best;
  std::size_t fewest = 1 + std::max<std::size_t>(2, word.size() / 3);
  for (const std::string& candidate : known) {
    const std::size_t count = edits(word.substr(0, word.find('=')), candidate);
    if (count < fewest) {
      fewest = count;
      best = candidate;
    }
  }
  return best;
}

}  // namespace training
