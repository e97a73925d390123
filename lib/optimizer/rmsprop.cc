#include "optimizer/blocks.h"
#include "optimizer/rules.h"

namespace tutti::optimizer {
namespace {

class RmsProp : public RuleOf<RmsProp> {
 public:
  explicit RmsProp(const Parameters& parameters)
      : common_(parameters.common()),
        share_(parameters["gamma1"]),
        epsilon_(parameters["epsilon"]),
        centered_(parameters.is_set("centered")),
        momentum_(parameters["gamma2"]),
        most_weight_(parameters["clip_weights"]) {}

  std::size_t slots() const override { return centered_ ? 3 : 1; }

  template <typename T>
  void apply(const Step& step, const Arrays<T>& arrays) const {
    const T rate = static_cast<T>(step.learning_rate);
    for_blocks(arrays, [&](Block<T> block) {
      const Temporary<T> gradient = decayed(block, common_, step.wd);
      Elements<T> square = block.slot(0);
      blend<T>(square, share_, gradient.square());
      if (centered_) {
        block.weight += velocity(block, gradient, rate);
      } else {
        block.weight -= rate * gradient / (square + static_cast<T>(epsilon_)).sqrt();
      }
      block.weight = clipped<T>(block.weight, most_weight_);
    });
  }

 private:
  /// Divides by the gradient's deviation from its mean.
  template <typename T>
  Elements<T> velocity(const Block<T>& block, const Temporary<T>& gradient, T rate) const {
    const Elements<T> square = block.slot(0);
    Elements<T> mean = block.slot(1);
    Elements<T> velocity = block.slot(2);
    blend<T>(mean, share_, gradient);
    velocity = static_cast<T>(momentum_) * velocity -
               rate * gradient / (square - mean.square() + static_cast<T>(epsilon_)).sqrt();
    return velocity;
  }

  const Common common_;
  const double share_;
  const double epsilon_;
  const bool centered_;
  const double momentum_;
  const double most_weight_;
};

}  // namespace

std::unique_ptr<const Rule> make_rmsprop(const Parameters& parameters) {
  return std::make_unique<RmsProp>(parameters);
}

}  // namespace tutti::optimizer
