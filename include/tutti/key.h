#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "tutti/export.h"

namespace tutti {

/// The name of a tensor: an integer or a string.
///
/// The keys of a store are all integers or all strings. The store's first call decides which; then
/// a key of the other kind throws `invalid_argument`. Strings that begin with "tutti:" are reserved
/// for libraries that are built on stores, and every store takes them. Only "tutti:barrier" is the
/// store's own, and throws `invalid_argument`.
///
/// An open store never forgets a key. With `dist_sync_mpi` each takes 1.5 KiB on rank 0 and 0.8 KiB
/// on other ranks (measured with 100,000 keys of 20 bytes). So do not make up new keys in a step.
class TUTTI_EXPORT Key {
 public:
  /// The most bytes of a string. Every call that takes a key throws `invalid_argument` for a longer
  /// one.
  static constexpr std::size_t max_bytes = 1024;

  // Implicit, so that `pushpull("w", ...)` and `pushpull(3, ...)` read as they do in MXNet.
  // NOLINTBEGIN(google-explicit-constructor)
  Key(int value) : value_(std::int64_t{value}) {}
  Key(std::int64_t value) : value_(value) {}
  /// Throws `invalid_argument` for a null pointer.
  Key(const char* value);
  Key(std::string value) : value_(std::move(value)) {}
  Key(std::string_view value) : value_(std::string(value)) {}
  // NOLINTEND(google-explicit-constructor)

  bool is_integer() const { return std::holds_alternative<std::int64_t>(value_); }
  std::int64_t integer() const { return std::get<std::int64_t>(value_); }
  const std::string& string() const { return std::get<std::string>(value_); }

  /// The key as messages show it: `3` or `'fc1_weight'`. It is always one line: quotes,
  /// backslashes, unprintable characters and bytes that are not UTF-8 are escaped. If it is longer
  /// than 128 bytes, its middle is left out.
  std::string describe() const;

  // Written by hand: std::variant compares through a table of functions, which takes longer.
  friend bool operator==(const Key& a, const Key& b) {
    if (a.is_integer() != b.is_integer()) return false;
    return a.is_integer() ? a.integer() == b.integer() : a.string() == b.string();
  }
  /// Integers come before strings.
  friend std::strong_ordering operator<=>(const Key& a, const Key& b) {
    if (a.is_integer() != b.is_integer()) return b.is_integer() <=> a.is_integer();
    return a.is_integer() ? a.integer() <=> b.integer() : a.string() <=> b.string();
  }

 private:
  std::variant<std::int64_t, std::string> value_;
};

}  // namespace tutti
