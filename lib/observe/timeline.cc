#include "observe/timeline.h"

#include <array>

namespace tutti::observe {

std::string_view name(Stage stage) {
  constexpr std::array<std::string_view, stages> names = {"copy in", "sum", "between nodes",
                                                          "copy out"};
  return names[static_cast<std::size_t>(stage)];
}

void Timeline::name(std::uint32_t row, const Key& key, CollectiveKind kind) {
  if (row >= rows_.size()) rows_.resize(row + std::size_t{1});
  // A barrier has a key that only the store knows.
  rows_[row] = kind == CollectiveKind::barrier ? tutti::name(kind) : key.describe();
}

}  // namespace tutti::observe
