#include "nn/zoo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "nn/activation.h"
#include "nn/convolution.h"
#include "nn/dense.h"
#include "nn/pooling.h"
#include "tutti/error.h"

namespace nn {
namespace {

constexpr auto tanh = Activation::Function::tanh;

// Like the LeNet of LeCun et al. 1998, both networks are smooth: no gradient jumps where the last
// bit of a sum decides which side of zero, or which element of a window, wins. So rounding stays as
// small as it is, and they train alike however a batch is split.

void mlp(Network& net, std::int64_t classes) {
  net.add<Dense>("fc1", 128);
  net.add<Activation>("tanh1", tanh);
  net.add<Dense>("fc2", 64);
  net.add<Activation>("tanh2", tanh);
  net.add<Dense>("fc3", classes);
}

/// Padded so that its two poolings, and nothing else, halve an image.
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

struct Entry {
  std::string_view name;
  void (*build)(Network&, std::int64_t classes);
  std::int64_t least_side;  ///< of an image, in pixels
};

constexpr std::array entries{Entry{"mlp", mlp, 1}, Entry{"lenet", lenet, 4}};
constexpr std::array names{entries[0].name, entries[1].name};

}  // namespace

std::span<const std::string_view> network_names() {
  return names;
}

Network make_network(std::string_view name, const Extent& image, std::int64_t classes,
                     tutti::Device device) {
  const auto* entry = std::ranges::find(entries, name, &Entry::name);
  if (entry == entries.end()) {
    throw tutti::Error(tutti::ErrorCode::invalid_argument,
                       "there is no network '" + std::string(name) + "'");
  }
  if (std::min(image.height, image.width) < entry->least_side) {
    throw tutti::Error(tutti::ErrorCode::invalid_argument,
                       fmt::format("network '{0}' takes images of {1}×{1} pixels and more; these "
                                   "have {2}×{3}",
                                   name, entry->least_side, image.height, image.width));
  }
  Network net(image, device);
  entry->build(net, classes);
  return net;
}

}  // namespace nn
