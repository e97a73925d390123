#include <cmath>

#include "optimizer/blocks.h"
#include "optimizer/rules.h"

namespace tutti::optimizer {
namespace {

/// Whether the decay of a weight goes into the gradient, or is applied separately.
enum class Decay : std::uint8_t { into_gradient, apart };

class Adam : public RuleOf<Adam> {
 public:
  Adam(const Parameters& parameters, Decay decay)
      : common_(parameters.common()),
        decay_(decay),
        beta1_(parameters["beta1"]),
        beta2_(parameters["beta2"]),
        epsilon_(parameters["epsilon"]) {}

  std::size_t slots() const override { return 2; }

  template <typename T>
  void apply(const Step& step, const Arrays<T>& arrays) const {
    const auto t = static_cast<double>(step.updates);
    const T rate = static_cast<T>(step.learning_rate * std::sqrt(1 - std::pow(beta2_, t)) /
                                  (1 - std::pow(beta1_, t)));
    const T kept = static_cast<T>(1 - step.learning_rate * step.wd);
    for_blocks(arrays, [&](Block<T> block) {
      const bool apart = decay_ == Decay::apart;
      const Temporary<T> gradient =
          apart ? prepared(block, common_) : decayed(block, common_, step.wd);
      if (apart) block.weight *= kept;
      Elements<T> mean = block.slot(0);
      Elements<T> square = block.slot(1);
      blend<T>(mean, beta1_, gradient);
      blend<T>(square, beta2_, gradient.square());
      block.weight -= rate * mean / (square.sqrt() + static_cast<T>(epsilon_));
    });
  }

 private:
  const Common common_;
  const Decay decay_;
  const double beta1_;
  const double beta2_;
  const double epsilon_;
};

}  // namespace

std::unique_ptr<const Rule> make_adam(const Parameters& parameters) {
  return std::make_unique<Adam>(parameters, Decay::into_gradient);
}

std::unique_ptr<const Rule> make_adamw(const Parameters& parameters) {
  return std::make_unique<Adam>(parameters, Decay::apart);
}

}  // namespace tutti::optimizer
