#include "base/names.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace tutti::base {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest(std::string_view misspelt, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const std::string_view name : known) {
    const std::size_t distance = edit_distance(misspelt, name);
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  const std::size_t near = std::max<std::size_t>(2, misspelt.size() / 3);
  return least <= near ? best : std::string_view{};
}

std::string suggestion(std::string_view misspelt, std::span<const std::string_view> known) {
  const std::string_view name = nearest(misspelt, known);
  return name.empty() ? "" : ", did you mean '" + std::string(name) + "'?";
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::string_view suffixes = "KMGT";
  std::size_t power = 0;
  while (bytes != 0 && bytes % 1024 == 0 && power < suffixes.size()) {
    bytes /= 1024;
    ++power;
  }
  return power == 0 ? std::to_string(bytes) : std::to_string(bytes) + suffixes[power - 1];
}

}  // namespace tutti::base
