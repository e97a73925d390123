// Networks whose layers do not stand in one line, and networks that are built of many.
#include "nn/residual.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "nn/activation.h"
#include "nn/convolution.h"
#include "nn/dense.h"
#include "nn/zoo.h"
#include "tutti/error.h"

namespace {

std::size_t weights_of(nn::Network& network) {
  std::size_t count = 0;
  for (const nn::Parameter* parameter : network.parameters()) count += parameter->value.count();
  return count;
}

/// Compares every gradient with the finite difference of the network's own loss.
class GradientCheck {
 public:
  GradientCheck(nn::Network& network, std::int64_t batch) : network_(network) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> values(-1, 1);
    network.initialise(3);
    for (float& input : network.resize(batch)) input = values(random);
    for (std::int64_t i = 0; i < batch; ++i) labels_.push_back(static_cast<std::uint8_t>(i % 3));
  }

  /// The largest difference, in relation to the parameter's largest gradient; over all of them.
  double worst_error() {
    loss();
    for (std::size_t layer = network_.layer_count(); layer-- > 0;) network_.backward(layer);
    double worst = 0;
    for (const nn::Parameter* parameter : network_.parameters()) {
      worst = std::max(worst, worst_error(*parameter));
    }
    return worst;
  }

 private:
  double loss() { return network_.forward(labels_, nn::Mode::training).loss; }

  double worst_error(const nn::Parameter& parameter) {
    constexpr float step = 2e-3F;
    double worst = 0;
    double scale = 1e-2;
    for (std::size_t i = 0; i < parameter.value.count(); ++i) {
      float& value = parameter.value.as<float>()[i];
      const float kept = value;
      value = kept + step;
      const double above = loss();
      value = kept - step;
      const double slope = (above - loss()) / (2 * static_cast<double>(step));
      value = kept;
      const auto gradient = static_cast<double>(parameter.gradient.as<float>()[i]);
      worst = std::max(worst, std::abs(slope - gradient));
      scale = std::max(scale, std::abs(gradient));
    }
    return worst / scale;
  }

  nn::Network& network_;
  std::vector<std::uint8_t> labels_;
};

}  // namespace

TEST_CASE("a residual block's gradients are its finite differences, in front of it and inside") {
  // With stride 1 and the same number of channels the input is added unchanged, and otherwise
  // through a convolution.
  const auto [channels, stride] = GENERATE(std::pair(3, 1), std::pair(4, 2), std::pair(5, 1));
  INFO(channels << " channels, stride " << stride);
  nn::Network network({4, 4, 2}, {});
  network.add<nn::Convolution>("before", nn::Convolution::Geometry{.channels = 3, .kernel = 1});
  nn::add_residual_block(network, "block", channels, stride);
  CHECK(network.layer_count() == (channels == 3 ? 8 : 10));
  CHECK(network.output() == nn::Extent{4 / stride, 4 / stride, channels});
  network.add<nn::Dense>("fc", 3);
  CHECK(GradientCheck(network, 4).worst_error() < 0.02);
}

TEST_CASE("a block whose convolutions give nothing passes on the positive part of its input") {
  nn::Network network({2, 2, 3}, {});
  nn::add_residual_block(network, "block", 3, 1);
  network.initialise(1);
  for (const nn::Parameter* parameter : network.parameters()) {
    std::fill_n(parameter->value.as<float>(), parameter->value.count(), 0.0F);
  }
  std::vector<float> logits(12, -1.0F);
  logits[7] = 5;
  std::ranges::copy(logits, network.resize(1).begin());
  // The loss of class 7 of a softmax over eleven zeros and a five.
  const std::vector<std::uint8_t> label{7};
  CHECK(network.forward(label, nn::Mode::training).loss ==
        Approx(std::log(1 + 11 * std::exp(-5.0))).epsilon(1e-4));
}

TEST_CASE("an output that several layers read gets the gradients of all of them") {
  constexpr auto tanh = nn::Activation::Function::tanh;
  nn::Network network({1, 1, 4}, {});
  network.add<nn::Dense>("first", 4);
  const nn::Network::Tap first = network.tap();
  network.add<nn::Activation>("tanh", tanh);
  network.add_sum(first, "sum");
  network.add<nn::Dense>("middle", 4);
  // Read before as a layer's only input and as a sum's other one.
  network.add_sum(first, "sum2");
  network.add<nn::Activation>("tanh2", tanh);
  const nn::Network::Tap last = network.tap();
  network.add_from<nn::Dense>(first, "aside", 4);
  network.add_sum(last, "sum3");
  network.add<nn::Dense>("fc", 3);
  CHECK(GradientCheck(network, 3).worst_error() < 0.01);
}

TEST_CASE("tensors that differ in extent are not added up") {
  nn::Network network({1, 1, 4}, {});
  network.add<nn::Dense>("first", 5);
  CHECK_THROWS_WITH(network.add_sum(0, "sum"),
                    "'sum' needs two different inputs of the same extent");
  CHECK_THROWS_AS(network.add_sum(network.tap(), "sum"), tutti::Error);
}

TEST_CASE("the networks for CIFAR-10 have the weights that others count") {
  const auto count = [](const char* name, std::int64_t classes) {
    nn::Network network = nn::make_network(name, {32, 32, 3}, classes, {});
    return weights_of(network);
  };
  CHECK(count("resnet18", 10) == 11'173'962);
  CHECK(count("vgg11", 10) == 9'231'114);
  CHECK(count("vgg16", 10) == 14'728'266);
  CHECK(count("vgg16", 100) == 14'728'266 + 90 * 513);
}

TEST_CASE("the networks for CIFAR-10 take larger images with the same weights") {
  for (const char* name : {"resnet18", "vgg11"}) {
    nn::Network small = nn::make_network(name, {32, 32, 3}, 10, {});
    nn::Network large = nn::make_network(name, {64, 64, 3}, 10, {});
    CHECK(weights_of(small) == weights_of(large));
  }
  nn::Network network = nn::make_network("resnet18", {8, 8, 1}, 10, {});
  CHECK(network.output() == nn::Extent{1, 1, 10});
}

TEST_CASE("a small step down the gradient of a deep network lowers its loss") {
  const auto* const name = GENERATE("resnet18", "vgg11");
  nn::Network network = nn::make_network(name, {32, 32, 3}, 10, {});
  network.initialise(1);
  std::mt19937 random(5);
  std::uniform_real_distribution<float> values(0, 1);
  for (float& input : network.resize(4)) input = values(random);
  const std::vector<std::uint8_t> labels{1, 7, 0, 3};
  const double before = network.forward(labels, nn::Mode::training).loss;
  double square = 0;
  for (std::size_t layer = network.layer_count(); layer-- > 0;) network.backward(layer);
  for (const nn::Parameter* parameter : network.parameters()) {
    for (std::size_t i = 0; i < parameter->value.count(); ++i) {
      square += std::pow(static_cast<double>(parameter->gradient.as<float>()[i]), 2);
    }
  }
  const auto step = static_cast<float>(0.01 * before / square);
  for (const nn::Parameter* parameter : network.parameters()) {
    for (std::size_t i = 0; i < parameter->value.count(); ++i) {
      parameter->value.as<float>()[i] -= step * parameter->gradient.as<float>()[i];
    }
  }
  const double after = network.forward(labels, nn::Mode::training).loss;
  // To first order the loss falls by a hundredth.
  CHECK(before - after > 0.005 * before);
  CHECK(before - after < 0.02 * before);
}
