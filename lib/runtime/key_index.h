#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "coordinator/key_hash.h"
#include "tutti/key.h"

namespace tutti::runtime {

/// Numbers keys in the order of their first use. A program uses the same keys in the same order in
/// each step. So the index first compares a key with the one that followed the last key before, and
/// only then searches the table.
class KeyIndex {
 public:
  using Number = std::uint32_t;

  std::size_t size() const { return keys_.size(); }
  const Key& key(Number number) const { return keys_[number]; }
  /// Returns the key's number. A new key gets the next one, which is the `size()` before the call.
  Number add(const Key& key) {
    if (next_ < keys_.size() && keys_[next_] == key) return next_++;
    const auto [at, fresh] = numbers_.try_emplace(key, static_cast<Number>(keys_.size()));
    if (fresh) keys_.push_back(key);
    next_ = at->second + 1;
    return at->second;
  }

 private:
  std::vector<Key> keys_;
  std::unordered_map<Key, Number, coordinator::KeyHash> numbers_;  ///< looked up, never iterated
  Number next_ = 0;  ///< a guess; any value gives right results
};

}  // namespace tutti::runtime
