#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace tutti::coordinator::test {

/// 128 bits of a state. Two states taken for one among 10^8: a chance of 10^-23.
struct Mark {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  bool operator==(const Mark&) const = default;
};

struct MarkHash {
  std::size_t operator()(const Mark& mark) const { return mark.a; }
};

inline Mark mark_of(std::string_view bytes) {
  Mark mark{std::hash<std::string_view>{}(bytes), bytes.size()};
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), sizeof(std::uint64_t)))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
    mark.b = (mark.b ^ word) * 0x9E3779B97F4A7C15ULL;
    mark.b ^= mark.b >> 29;
  }
  return mark;
}

/// A part of a world. Copies of the world share it until one of them changes it, for an event
/// changes few parts; its mark is reckoned once for all of them.
template <typename T>
class CopyOnWrite {
 public:
  explicit CopyOnWrite(T value) : all_(std::make_shared<All>(All{std::move(value), {}})) {}

  const T& operator*() const { return all_->value; }
  const T* operator->() const { return &all_->value; }
  T& change() {
    if (all_.use_count() > 1) all_ = std::make_shared<All>(All{all_->value, {}});
    all_->mark.reset();
    return all_->value;
  }
  /// `bytes_of` is the same at every call.
  template <typename BytesOf>
  Mark mark(BytesOf bytes_of) const {
    if (!all_->mark) all_->mark = mark_of(bytes_of(all_->value));
    return *all_->mark;
  }

 private:
  struct All {
    T value;
    std::optional<Mark> mark;
  };
  std::shared_ptr<All> all_;
};

}  // namespace tutti::coordinator::test
