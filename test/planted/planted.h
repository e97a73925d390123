#pragma once
#include <cstdlib>
#include <string_view>

namespace tutti::test {

/// Whether the process runs with the bug of this number. The copies of sources that planted.py
/// writes ask for it.
inline bool is_planted(std::string_view number) {
  const char* const chosen = std::getenv("PLANTED_BUG");
  return chosen != nullptr && number == chosen;
}

}  // namespace tutti::test
