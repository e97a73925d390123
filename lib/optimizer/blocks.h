#pragma once
#include <Eigen/Core>
#include <algorithm>

#include "optimizer/parameters.h"
#include "optimizer/rule.h"

namespace tutti::optimizer {

/// A rule passes over its arrays in blocks. The temporaries of a block stay in the cache.
inline constexpr std::size_t block_elements = 1024;

template <typename T>
using Elements = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <typename T>
using ConstElements = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;
template <typename T>
using Temporary = Eigen::Array<T, Eigen::Dynamic, 1, 0, static_cast<int>(block_elements), 1>;

/// Some elements of each array of an update.
template <typename T>
struct Block {
  Elements<T> weight;
  ConstElements<T> gradient;
  std::array<T*, Arrays<T>::most_slots> slots;

  Elements<T> slot(std::size_t i) const { return {slots[i], weight.size()}; }
};

/// Calls `work` with one block after the other.
template <typename T, typename Work>
void for_blocks(const Arrays<T>& arrays, Work work) {
  for (std::size_t at = 0; at < arrays.count; at += block_elements) {
    const auto size = static_cast<Eigen::Index>(std::min(block_elements, arrays.count - at));
    std::array<T*, Arrays<T>::most_slots> slots = arrays.slots;
    for (T*& slot : slots) slot = slot == nullptr ? nullptr : slot + at;
    work(Block<T>{{arrays.weight + at, size}, {arrays.gradient + at, size}, slots});
  }
}

/// If the gradient is not a number, the result is not a number either.
template <typename T>
Temporary<T> clipped(const Temporary<T>& gradient, double bound) {
  if (bound <= 0) return gradient;
  const T most = static_cast<T>(bound);
  return (gradient > most).select(most, (gradient < -most).select(-most, gradient));
}

/// The gradient in the form that a rule takes: rescaled, then clipped.
template <typename T>
Temporary<T> prepared(const Block<T>& block, const Common& common) {
  return clipped<T>(static_cast<T>(common.rescale_grad) * block.gradient, common.clip_gradient);
}

/// The gradient with the weight's decay added, both clipped together.
template <typename T>
Temporary<T> decayed(const Block<T>& block, const Common& common, double wd) {
  return clipped<T>(
      static_cast<T>(common.rescale_grad) * block.gradient + static_cast<T>(wd) * block.weight,
      common.clip_gradient);
}

/// average = share * average + (1 - share) * news
template <typename T, typename News>
void blend(Elements<T> average, double share, const News& news) {
  average = static_cast<T>(share) * average + static_cast<T>(1 - share) * news;
}

/// Gives a rule with a template `apply` both of its updates.
template <typename Derived>
class RuleOf : public Rule {
 public:
  void update(const Step& step, const Arrays<float>& arrays) const final {
    static_cast<const Derived&>(*this).apply(step, arrays);
  }
  void update(const Step& step, const Arrays<double>& arrays) const final {
    static_cast<const Derived&>(*this).apply(step, arrays);
  }
};

}  // namespace tutti::optimizer
