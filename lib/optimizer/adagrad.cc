#include "optimizer/blocks.h"
#include "optimizer/rules.h"

namespace tutti::optimizer {
namespace {

class AdaGrad : public RuleOf<AdaGrad> {
 public:
  explicit AdaGrad(const Parameters& parameters)
      : common_(parameters.common()), epsilon_(parameters["epsilon"]) {}

  std::size_t slots() const override { return 1; }

  template <typename T>
  void apply(const Step& step, const Arrays<T>& arrays) const {
    for_blocks(arrays, [&](Block<T> block) {
      const Temporary<T> gradient = prepared(block, common_);
      Elements<T> history = block.slot(0);
      history += gradient.square();
      block.weight -= static_cast<T>(step.learning_rate) *
                      (gradient / (history + static_cast<T>(epsilon_)).sqrt() +
                       static_cast<T>(step.wd) * block.weight);
    });
  }

 private:
  const Common common_;
  const double epsilon_;
};

}  // namespace

std::unique_ptr<const Rule> make_adagrad(const Parameters& parameters) {
  return std::make_unique<AdaGrad>(parameters);
}

}  // namespace tutti::optimizer
