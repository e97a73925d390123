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
/// Throws `invalid_argument` if `write_saved` did not write the bytes.
Saved read_saved(std::span<const std::uint8_t> bytes);

/// Throws `invalid_argument` unless a store with this optimizer (null: with none) can take the
/// saved data. It can if they contain an optimizer, or if their states belong to this optimizer's
/// rule.
void check_fits(const Saved& saved, const Optimizer* mine);

}  // namespace tutti::optimizer
