#include "nn/residual.h"

#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/convolution.h"

namespace nn {
namespace {

constexpr auto relu = Activation::Function::relu;

Convolution::Geometry square(std::int64_t channels, std::int64_t kernel, std::int64_t stride) {
  return {.channels = channels,
          .kernel = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .bias = false};
}

}  // namespace

void add_residual_block(Network& net, const std::string& name, std::int64_t channels,
                        std::int64_t stride) {
  const Network::Tap input = net.tap();
  const std::int64_t input_channels = net.output().channels;
  net.add<Convolution>(name + "_conv1", square(channels, 3, stride));
  net.add<BatchNorm>(name + "_bn1");
  net.add<Activation>(name + "_relu1", relu);
  net.add<Convolution>(name + "_conv2", square(channels, 3, 1));
  net.add<BatchNorm>(name + "_bn2");
  Network::Tap other = input;
  if (stride != 1 || input_channels != channels) {
    other = net.tap();
    net.add_from<Convolution>(input, name + "_shortcut", square(channels, 1, stride));
    net.add<BatchNorm>(name + "_shortcut_bn");
  }
  net.add_sum(other, name + "_sum");
  net.add<Activation>(name + "_relu2", relu);
}

}  // namespace nn
