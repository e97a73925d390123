#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::optimizer {

/// The settings that may differ between two updates of a key.
struct Step {
  double learning_rate = 0;
  double wd = 0;
  std::int64_t updates = 0;  ///< the number of updates of this key, including this one
};

/// The arrays of an update. All have `count` elements.
template <typename T>
struct Arrays {
  static constexpr std::size_t most_slots = 3;

  std::size_t count = 0;
  T* weight = nullptr;
  const T* gradient = nullptr;
  std::array<T*, most_slots> slots{};
};

/// An update rule with its parameters. Immutable. Any thread may use it.
class Rule {
 public:
  Rule() = default;
  virtual ~Rule() = default;
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;

  /// The number of arrays of the value's size that the rule keeps for each key. They begin as
  /// zeros.
  virtual std::size_t slots() const = 0;
  /// Whether an element's update depends on all others, so that a value cannot be updated in parts.
  virtual bool needs_whole() const { return false; }
  virtual void update(const Step& step, const Arrays<float>& arrays) const = 0;
  virtual void update(const Step& step, const Arrays<double>& arrays) const = 0;
};

}  // namespace tutti::optimizer
