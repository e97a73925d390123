#include <algorithm>
#include <cmath>

#include "optimizer/blocks.h"
#include "optimizer/rules.h"

namespace tutti::optimizer {
namespace {

class Lamb : public RuleOf<Lamb> {
 public:
  explicit Lamb(const Parameters& parameters)
      : common_(parameters.common()),
        beta1_(parameters["beta1"]),
        beta2_(parameters["beta2"]),
        epsilon_(parameters["epsilon"]),
        corrects_bias_(parameters.is_set("bias_correction")),
        lower_(parameters["lower_bound"]),
        upper_(parameters["upper_bound"]) {}

  std::size_t slots() const override { return 2; }
  bool needs_whole() const override { return true; }

  /// The norms of the whole value are needed before any element changes. So the first pass updates
  /// the averages, and the second computes the direction again instead of keeping it.
  template <typename T>
  void apply(const Step& step, const Arrays<T>& arrays) const {
    double weights = 0;
    double directions = 0;
    for_blocks(arrays, [&](Block<T> block) {
      const Temporary<T> gradient = prepared(block, common_);
      blend<T>(block.slot(0), beta1_, gradient);
      blend<T>(block.slot(1), beta2_, gradient.square());
      weights += block.weight.template cast<double>().square().sum();
      directions += direction(block, step).template cast<double>().square().sum();
    });
    const T rate =
        static_cast<T>(step.learning_rate * trust(std::sqrt(weights), std::sqrt(directions)));
    for_blocks(arrays, [&](Block<T> block) { block.weight -= rate * direction(block, step); });
  }

 private:
  template <typename T>
  Temporary<T> direction(const Block<T>& block, const Step& step) const {
    const T mean = static_cast<T>(unbiased(beta1_, step));
    const T square = static_cast<T>(unbiased(beta2_, step));
    return mean * block.slot(0) / ((square * block.slot(1)).sqrt() + static_cast<T>(epsilon_)) +
           static_cast<T>(step.wd) * block.weight;
  }

  /// The factor that corrects an average that began at 0.
  double unbiased(double share, const Step& step) const {
    return corrects_bias_ ? 1 / (1 - std::pow(share, static_cast<double>(step.updates))) : 1;
  }

  double trust(double weights, double directions) const {
    if (lower_ > 0) weights = std::max(weights, lower_);
    if (upper_ > 0) weights = std::min(weights, upper_);
    return weights > 0 && directions > 0 ? weights / directions : 1;
  }

  const Common common_;
  const double beta1_;
  const double beta2_;
  const double epsilon_;
  const bool corrects_bias_;
  const double lower_;
  const double upper_;
};

}  // namespace

std::unique_ptr<const Rule> make_lamb(const Parameters& parameters) {
  return std::make_unique<Lamb>(parameters);
}

}  // namespace tutti::optimizer
