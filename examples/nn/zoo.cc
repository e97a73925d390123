#include "nn/zoo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/convolution.h"
#include "nn/dense.h"
#include "nn/pooling.h"
#include "nn/residual.h"
#include "tutti/error.h"

namespace nn {
namespace {

constexpr auto tanh = Activation::Function::tanh;

// Like the LeNet of LeCun et al. 1998, these two networks are smooth. In others a gradient jumps
// when the last bit of a sum decides on which side of zero it is, or which element of a window is
// the maximum. Without jumps rounding errors stay small, and the networks train alike however a
// batch is split.

void mlp(Network& net, std::int64_t classes) {
  net.add<Dense>("fc1", 128);
  net.add<Activation>("tanh1", tanh);
  net.add<Dense>("fc2", 64);
  net.add<Activation>("tanh2", tanh);
  net.add<Dense>("fc3", classes);
}

/// The padding lets only its two poolings make an image smaller, each by half.
void lenet(Network& net, std::int64_t classes) {
  net.add<Convolution>("conv1", Convolution::Geometry{.channels = 20, .kernel = 5, .padding = 2});
  net.add<Activation>("tanh1", tanh);
  net.add<Pooling>("pool1", Pooling::Kind::average, 2);
  net.add<Convolution>("conv2", Convolution::Geometry{.channels = 50, .kernel = 5, .padding = 2});
  net.add<Activation>("tanh2", tanh);
  net.add<Pooling>("pool2", Pooling::Kind::average, 2);
  net.add<Dense>("fc1", 500);
  net.add<Activation>("tanh3", tanh);
  net.add<Dense>("fc2", classes);
}

constexpr auto rectified = Activation::Function::relu;

/// VGG of Simonyan and Zisserman 2014 as it is used on CIFAR-10: each 3×3 convolution has a bias
/// and is followed by a batch normalisation, and a single dense layer classifies. Widths are
/// channels; 0 is a pooling.
void vgg(Network& net, std::int64_t classes, std::initializer_list<std::int64_t> widths) {
  int convolutions = 0;
  int poolings = 0;
  for (const std::int64_t width : widths) {
    if (width == 0) {
      net.add<Pooling>(fmt::format("pool{}", ++poolings), Pooling::Kind::maximum, 2);
      continue;
    }
    const int number = ++convolutions;
    net.add<Convolution>(fmt::format("conv{}", number),
                         Convolution::Geometry{.channels = width, .kernel = 3, .padding = 1});
    net.add<BatchNorm>(fmt::format("bn{}", number));
    net.add<Activation>(fmt::format("relu{}", number), rectified);
  }
  // An image of 32×32 pixels has become one pixel here. The pooling averages the pixels of larger
  // images, so they get the same classifier.
  net.add<GlobalPooling>("pool");
  net.add<Dense>("fc", classes);
}

void vgg11(Network& net, std::int64_t classes) {
  vgg(net, classes, {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0});
}

void vgg16(Network& net, std::int64_t classes) {
  vgg(net, classes, {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0});
}

/// ResNet-18 of He et al. 2015 as it is used on CIFAR-10: a 3×3 convolution of stride 1 and no
/// pooling at the start, so that small images keep their size until the second stage.
void resnet18(Network& net, std::int64_t classes) {
  net.add<Convolution>(
      "conv1", Convolution::Geometry{.channels = 64, .kernel = 3, .padding = 1, .bias = false});
  net.add<BatchNorm>("bn1");
  net.add<Activation>("relu1", rectified);
  std::int64_t channels = 64;
  for (int stage = 1; stage <= 4; ++stage, channels *= 2) {
    add_residual_block(net, fmt::format("stage{}_block1", stage), channels, stage == 1 ? 1 : 2);
    add_residual_block(net, fmt::format("stage{}_block2", stage), channels, 1);
  }
  net.add<GlobalPooling>("pool");
  net.add<Dense>("fc", classes);
}

struct Entry {
  std::string_view name;
  void (*build)(Network&, std::int64_t classes);
  std::int64_t least_side;  ///< of an image, in pixels
  Extent usual_image;
};

constexpr Extent digit{8, 8, 1};
constexpr Extent photo{32, 32, 3};
constexpr std::array entries{Entry{"mlp", mlp, 1, digit}, Entry{"lenet", lenet, 4, digit},
                             Entry{"resnet18", resnet18, 1, photo},
                             Entry{"vgg11", vgg11, 32, photo}, Entry{"vgg16", vgg16, 32, photo}};

const Entry& find(std::string_view name) {
  const auto* entry = std::ranges::find(entries, name, &Entry::name);
  if (entry != entries.end()) return *entry;
  throw tutti::Error(tutti::ErrorCode::invalid_argument,
                     "there is no network '" + std::string(name) + "'");
}

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) names.emplace_back(entry.name);
  return names;
}

Extent usual_image(std::string_view network) {
  return find(network).usual_image;
}

Network make_network(std::string_view name, const Extent& image, std::int64_t classes,
                     tutti::Device device) {
  const Entry& entry = find(name);
  if (std::min(image.height, image.width) < entry.least_side) {
    throw tutti::Error(tutti::ErrorCode::invalid_argument,
                       fmt::format("network '{0}' takes images of {1}×{1} pixels and more; these "
                                   "have {2}×{3}",
                                   name, entry.least_side, image.height, image.width));
  }
  Network net(image, device);
  entry.build(net, classes);
  return net;
}

}  // namespace nn
