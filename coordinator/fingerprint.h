#pragma once
#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace tutti::coordinator {

/// Gathers the bytes of a state in one canonical order. Equal bytes mean an equal future.
class Fingerprint {
 public:
  template <typename T>
  requires std::integral<T> || std::is_enum_v<T> Fingerprint& add(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Fingerprint& add(std::chrono::nanoseconds value) { return add(value.count()); }
  Fingerprint& add(std::string_view text) {
    add(text.size());
    bytes_.append(text);
    return *this;
  }
  template <typename T>
  Fingerprint& add(const std::optional<T>& value) {
    add(value.has_value());
    return value ? add(*value) : *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace tutti::coordinator
