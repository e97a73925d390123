#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optimizer/state.h"
#include "tutti/key.h"
#include "tutti/optimizer.h"

namespace tutti::optimizer {

/// The data that an updater saves. They are CBOR, so that another version or machine can read them.
struct Saved {
  std::string rule;
  std::optional<Optimizer> optimizer{};
  std::map<Key, State> states{};
};

std::vector<std::uint8_t> write_saved(const Saved& saved);
/// Throws `invalid_argument` for bytes that `write_saved` did not write.
Saved read_saved(std::span<const std::uint8_t> bytes);

/// Throws `invalid_argument` unless who has this optimizer, or null, can take what was saved: it
/// brings an optimizer, or the states are of this one's rule.
void check_fits(const Saved& saved, const Optimizer* mine);

}  // namespace tutti::optimizer
