#include "benchmarks/training_step/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tutti/error.h"

namespace tutti::bench {
namespace {

constexpr std::array<std::string_view, 2> names{"vgg16", "resnet50"};
constexpr std::size_t classes = 1000;

/// The multiply-adds of a convolution or dense layer. Each of its weights is used at side × side
/// positions of the output.
double products(std::size_t weights, std::size_t side) {
  return static_cast<double>(weights) * static_cast<double>(side * side);
}

Model vgg16() {
  Model model;
  std::size_t side = 224;
  std::size_t channels = 3;
  const auto stage = [&](std::size_t convolutions, std::size_t width) {
    for (std::size_t i = 0; i < convolutions; ++i) {
      const std::size_t weights = width * channels * 3 * 3;
      model.push_back(
          {fmt::format("conv{}", model.size() + 1), {weights, width}, products(weights, side)});
      channels = width;
    }
    side /= 2;
  };
  stage(2, 64);
  stage(2, 128);
  stage(3, 256);
  stage(3, 512);
  stage(3, 512);
  std::size_t inputs = channels * side * side;
  for (const std::size_t outputs : {std::size_t{4096}, std::size_t{4096}, classes}) {
    const std::size_t weights = inputs * outputs;
    model.push_back(
        {fmt::format("fc{}", model.size() + 1), {weights, outputs}, products(weights, 1)});
    inputs = outputs;
  }
  return model;
}

/// Builds ResNet-50 layer by layer. Each convolution has no bias and is followed by a batch
/// normalisation.
class ResNet50 {
 public:
  Model build() {
    convolution("conv1", 3, 64, 7, 2);
    side_ /= 2;  // the pooling after the first convolution
    std::size_t inputs = 64;
    constexpr std::array<std::size_t, 4> blocks{3, 4, 6, 3};
    for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
      for (std::size_t i = 0; i < blocks[stage]; ++i) {
        inputs = bottleneck(fmt::format("stage{}_block{}", stage + 1, i + 1), inputs,
                            std::size_t{64} << stage, stage > 0 && i == 0 ? 2 : 1);
      }
    }
    model_.push_back({"fc", {inputs * classes, classes}, products(inputs * classes, 1)});
    return std::move(model_);
  }

 private:
  void convolution(const std::string& name, std::size_t inputs, std::size_t outputs,
                   std::size_t kernel, std::size_t stride) {
    side_ /= stride;
    const std::size_t weights = inputs * outputs * kernel * kernel;
    model_.push_back({name, {weights}, products(weights, side_)});
    // A scale and a shift for each activation count as one product each.
    model_.push_back({name + "_bn", {outputs, outputs}, products(2 * outputs, side_)});
  }

  /// Returns the number of channels of the block's output.
  std::size_t bottleneck(const std::string& name, std::size_t inputs, std::size_t width,
                         std::size_t stride) {
    const std::size_t outputs = 4 * width;
    convolution(name + "_conv1", inputs, width, 1, 1);
    convolution(name + "_conv2", width, width, 3, stride);
    convolution(name + "_conv3", width, outputs, 1, 1);
    // `side_` is already that of the output. The stride of the shortcut gives the same.
    if (inputs != outputs) convolution(name + "_shortcut", inputs, outputs, 1, 1);
    return outputs;
  }

  Model model_;
  std::size_t side_ = 224;
};

}  // namespace

std::span<const std::string_view> model_names() {
  return names;
}

Model make_model(std::string_view name, double scale) {
  if (std::ranges::find(names, name) == names.end()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("there is no model '{}'", name));
  }
  Model model = name == "vgg16" ? vgg16() : ResNet50().build();
  for (LayerShape& layer : model) {
    for (std::size_t& count : layer.tensors) {
      const double scaled = std::round(scale * static_cast<double>(count));
      count = static_cast<std::size_t>(std::max(1.0, scaled));
    }
  }
  return model;
}

std::size_t tensor_count(const Model& model) {
  std::size_t count = 0;
  for (const LayerShape& layer : model) count += layer.tensors.size();
  return count;
}

std::size_t element_count(const Model& model) {
  std::size_t count = 0;
  for (const LayerShape& layer : model) {
    for (const std::size_t elements : layer.tensors) count += elements;
  }
  return count;
}

}  // namespace tutti::bench
