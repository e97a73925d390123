#pragma once
#include <cstddef>

namespace tutti::coordinator::test {

/// Whether the fault with this number in seeded_bugs.json is switched on. Asked by the copies of
/// the protocol's sources that seed_bugs.py writes.
bool is_seeded(std::size_t number);

}  // namespace tutti::coordinator::test
