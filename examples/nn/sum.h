#pragma once
#include "nn/layer.h"

namespace nn {

/// Adds its two inputs, which have the same extent: the end of a residual block.
class Sum : public Layer {
 public:
  Sum(const Context& context, const std::string& /*name*/, const Extent& input)
      : Layer(context), input_(input) {}

  Extent output() const override { return input_; }
  void resize(std::int64_t batch) override;
  void forward(const Activations& at, Mode mode) override;
  void backward(const Activations& at) override;

 private:
  Extent input_;
  dnnl::memory::desc data_;
  dnnl::sum forward_;
};

}  // namespace nn
