#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::bench {

/// The facts about a network's layer that a training step needs.
struct LayerShape {
  std::string name;
  std::vector<std::size_t> tensors;  ///< elements of each gradient: weight and bias, say
  double work = 0;                   ///< multiply-adds of the forward pass for one image
};

/// In the order of the forward pass.
using Model = std::vector<LayerShape>;

/// The names that `make_model` knows.
std::span<const std::string_view> model_names();

/// The layers with weights of a network for ImageNet's 224×224 images and 1,000 classes: "vgg16"
/// (Simonyan and Zisserman 2014, without batch normalisation) or "resnet50" (He et al. 2015).
/// Tensors have `scale` times their elements, at least one; the work is always that of the full
/// size. Throws `invalid_argument` for another name.
Model make_model(std::string_view name, double scale);

std::size_t tensor_count(const Model& model);
std::size_t element_count(const Model& model);

}  // namespace tutti::bench
