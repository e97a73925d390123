#pragma once
#include "nn/layer.h"

namespace nn {

/// Applies a function to each number.
class Activation : public Layer {
 public:
  enum class Function { relu, tanh };

  Activation(const Context& context, const std::string& /*name*/, const Extent& input,
             Function function)
      : Layer(context), input_(input), function_(function) {}

  Extent output() const override { return input_; }
  void resize(std::int64_t batch) override;
  void forward(const Activations& at, Mode mode) override;
  void backward(const Activations& at) override;

 private:
  Extent input_;
  Function function_;
  dnnl::memory::desc data_;
  dnnl::eltwise_forward forward_;
  dnnl::eltwise_backward backward_;
};

}  // namespace nn
