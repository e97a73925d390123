#pragma once
#include "nn/layer.h"
#include "nn/weighted.h"

namespace nn {

/// Every output is a weighted sum of all inputs of the sample plus a bias.
class Dense : public Layer {
 public:
  Dense(const Context& context, const std::string& name, const Extent& input, std::int64_t outputs);

  Extent output() const override { return {1, 1, outputs_}; }
  void resize(std::int64_t batch) override;
  void forward(const Activations& at, Mode mode) override;
  void backward(const Activations& at) override;
  std::vector<Parameter*> parameters() override { return {&weight_, &bias_}; }

 private:
  Extent input_;
  std::int64_t outputs_;
  Parameter weight_;
  Parameter bias_;
  Weighted product_;
};

}  // namespace nn
