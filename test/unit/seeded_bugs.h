#pragma once
#include <cstddef>

namespace tutti::test {

/// Whether the fault with this number in a program's seeded_bugs.json is switched on. Asked by the
/// copies of sources that seed_bugs.py writes.
bool is_seeded(std::size_t number);

}  // namespace tutti::test
