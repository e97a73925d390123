#include "optimizer/blocks.h"
#include "optimizer/rules.h"

namespace tutti::optimizer {
namespace {

class Sgd : public RuleOf<Sgd> {
 public:
  Sgd(const Parameters& parameters, bool nesterov)
      : common_(parameters.common()), momentum_(parameters["momentum"]), nesterov_(nesterov) {}

  std::size_t slots() const override { return momentum_ > 0 ? 1 : 0; }

  template <typename T>
  void apply(const Step& step, const Arrays<T>& arrays) const {
    const T momentum = static_cast<T>(momentum_);
    for_blocks(arrays, [&](Block<T> block) {
      const Temporary<T> change =
          static_cast<T>(step.learning_rate) *
          (prepared(block, common_) + static_cast<T>(step.wd) * block.weight);
      if (momentum_ == 0) {
        block.weight -= change;
        return;
      }
      Elements<T> velocity = block.slot(0);
      velocity = momentum * velocity - change;
      if (nesterov_) {
        block.weight += momentum * velocity - change;
      } else {
        block.weight += velocity;
      }
    });
  }

 private:
  const Common common_;
  const double momentum_;
  const bool nesterov_;
};

}  // namespace

std::unique_ptr<const Rule> make_sgd(const Parameters& parameters) {
  return std::make_unique<Sgd>(parameters, parameters.is_set("nesterov"));
}

std::unique_ptr<const Rule> make_nag(const Parameters& parameters) {
  return std::make_unique<Sgd>(parameters, true);
}

}  // namespace tutti::optimizer
