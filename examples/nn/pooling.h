#pragma once
#include "nn/layer.h"

namespace nn {

/// The maximum or the average of each window. Windows lie side by side without overlap. Pixels that
/// fill no window at the right and lower edge are dropped.
class Pooling : public Layer {
 public:
  enum class Kind { maximum, average };

  Pooling(const Context& context, const std::string& /*name*/, const Extent& input, Kind kind,
          std::int64_t window)
      : Pooling(context, input, kind, window, window) {}

  Extent output() const override {
    return {input_.height / height_, input_.width / width_, input_.channels};
  }
  void resize(std::int64_t batch) override;
  void forward(const Activations& at, Mode mode) override;
  void backward(const Activations& at) override;

 protected:
  Pooling(const Context& context, const Extent& input, Kind kind, std::int64_t height,
          std::int64_t width)
      : Layer(context), input_(input), kind_(kind), height_(height), width_(width) {}

 private:
  Extent input_;
  Kind kind_;
  std::int64_t height_, width_;  ///< of a window
  dnnl::memory::desc in_, out_;
  dnnl::memory workspace_;  ///< which element of each window was the maximum
  dnnl::pooling_forward forward_;
  dnnl::pooling_backward backward_;
};

/// The average of each channel over the whole image, which may have any size.
class GlobalPooling : public Pooling {
 public:
  GlobalPooling(const Context& context, const std::string& /*name*/, const Extent& input)
      : Pooling(context, input, Kind::average, input.height, input.width) {}
};

}  // namespace nn
