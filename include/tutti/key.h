#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "tutti/export.h"

namespace tutti {

/// Names a tensor: an integer or a string. One store takes one of the two kinds; the first call
/// decides, and the other kind is then `invalid_argument`. A store remembers every key that it has
/// seen, on rank 0 in 1.4 KiB and elsewhere in 0.7 (200,000 keys of 20 bytes, growth of the
/// resident memory): names made up anew every step take ever more memory.
class TUTTI_EXPORT Key {
 public:
  /// A longer string is refused by every call that takes a key: `invalid_argument`.
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

  /// For messages: `3` or `'fc1_weight'`. Always one line: quotes, backslashes and what is not
  /// printable in it or not UTF-8 are escaped, and of more than 128 bytes the middle is left out.
  std::string describe() const;

  // Written by hand: std::variant compares through a table of functions, which takes longer.
  friend bool operator==(const Key& a, const Key& b) {
    if (a.is_integer() != b.is_integer()) return false;
    return a.is_integer() ? a.integer() == b.integer() : a.string() == b.string();
  }
  /// Integers before strings.
  friend std::strong_ordering operator<=>(const Key& a, const Key& b) {
    if (a.is_integer() != b.is_integer()) return b.is_integer() <=> a.is_integer();
    return a.is_integer() ? a.integer() <=> b.integer() : a.string() <=> b.string();
  }

 private:
  std::variant<std::int64_t, std::string> value_;
};

}  // namespace tutti
