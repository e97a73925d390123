#pragma once
#include "nn/layer.h"

namespace nn {

/// The maximum or the average of each square window; windows touch and do not overlap, and what is
/// left over at the right and lower edge is dropped.
class Pooling : public Layer {
 public:
  enum class Kind { maximum, average };

  Pooling(const Context& context, const std::string& /*name*/, const Extent& input, Kind kind,
          std::int64_t window)
      : Layer(context), input_(input), kind_(kind), window_(window) {}

  Extent output() const override {
    return {input_.height / window_, input_.width / window_, input_.channels};
  }
  void resize(std::int64_t batch) override;
  void forward(const Activations& at, Mode mode) override;
  void backward(const Activations& at) override;

 private:
  Extent input_;
  Kind kind_;
  std::int64_t window_;
  dnnl::memory::desc in_, out_;
  dnnl::memory workspace_;  ///< which element of each window was the maximum
  dnnl::pooling_forward forward_;
  dnnl::pooling_backward backward_;
};

}  // namespace nn
