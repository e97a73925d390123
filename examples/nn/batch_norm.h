#pragma once
#include "nn/layer.h"

namespace nn {

/// Makes each channel's mean 0 and variance 1, then scales and shifts it. In training mode the
/// statistics are those of the device's own part of the batch, so a network with this layer does
/// not train alike when the same batch is split differently. In inference mode they are the running
/// averages seen in training.
class BatchNorm : public Layer {
 public:
  BatchNorm(const Context& context, const std::string& name, const Extent& input);

  Extent output() const override { return input_; }
  void resize(std::int64_t batch) override;
  void forward(const Activations& at, Mode mode) override;
  void backward(const Activations& at) override;
  std::vector<Parameter*> parameters() override { return {&scale_, &shift_}; }

 private:
  void update_running_statistics();

  Extent input_;
  Parameter scale_;
  Parameter shift_;
  std::vector<float> mean_, variance_;
  std::vector<float> running_mean_, running_variance_;
  dnnl::memory::desc data_, channel_;
  dnnl::batch_normalization_forward training_, inference_;
  dnnl::batch_normalization_backward backward_;
};

}  // namespace nn
