#include "observe/timeline.h"

#include <array>
#include <functional>
#include <string>

namespace tutti::observe {

std::string_view name(Stage stage) {
  constexpr std::array<std::string_view, stages> names = {"copy in", "sum", "between nodes",
                                                          "copy out"};
  return names[static_cast<std::size_t>(stage)];
}

std::size_t Timeline::KeyHash::operator()(const Key& key) const {
  return key.is_integer() ? std::hash<std::int64_t>{}(key.integer())
                          : std::hash<std::string>{}(key.string());
}

std::uint32_t Timeline::row(const Key& key) {
  const auto [found, added] = row_of_.try_emplace(key, static_cast<std::uint32_t>(rows_.size()));
  if (added) rows_.push_back(key);
  return found->second;
}

}  // namespace tutti::observe
