#include "nn/network.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "nn/zoo.h"

namespace {

nn::Network seeded(std::string_view name, std::uint64_t seed) {
  nn::Network network = nn::make_network(name, {8, 8, 1}, 10, {});
  network.initialise(seed);
  return network;
}

/// Moves all parameters along `direction`, one number for each in order.
void move(nn::Network& network, const std::vector<float>& direction, float by) {
  auto step = direction.begin();
  for (const nn::Parameter* parameter : network.parameters()) {
    for (std::size_t i = 0; i < parameter->value.count(); ++i) {
      parameter->value.as<float>()[i] += by * *step++;
    }
  }
}

}  // namespace

TEST_CASE("a network's first weights are the same on every machine") {
  nn::Network network = seeded("mlp", 1);
  // The values follow from the first two numbers of the C++ standard's mt19937_64 for seed 1.
  const float limit = std::sqrt(6.0F / 64.0F);
  const float* weights = network.parameters()[0]->value.as<float>();
  std::mt19937_64 random(1);
  for (int i = 0; i < 2; ++i) {
    const double unit = static_cast<double>(random() >> 40) / 16777216.0;
    CHECK(static_cast<double>(weights[i]) ==
          Approx(static_cast<double>(limit) * (2 * unit - 1)).margin(1e-6));
  }
  CHECK(std::abs(weights[0]) <= limit);
  CHECK(network.parameters()[1]->name == "fc1_bias");
  CHECK(network.parameters()[1]->value.as<float>()[0] == 0.0F);
}

TEST_CASE("images that are too small for a network are refused") {
  CHECK_NOTHROW(nn::make_network("lenet", {4, 4, 1}, 10, {}));
  CHECK_NOTHROW(nn::make_network("vgg11", {32, 32, 3}, 10, {}));
  CHECK_THROWS_WITH(nn::make_network("vgg16", {28, 28, 1}, 10, {}),
                    Catch::Contains("32×32 pixels and more"));
  CHECK_THROWS_WITH(nn::make_network("lenet", {40, 3, 1}, 10, {}),
                    "network 'lenet' takes images of 4×4 pixels and more; these have 40×3");
}

TEST_CASE("a network's gradients are the slope of its loss") {
  const std::string name = GENERATE("mlp", "lenet");
  nn::Network network = seeded(name, 3);
  std::mt19937 random(5);
  std::uniform_real_distribution<float> values(-1, 1);
  for (float& input : network.resize(4)) input = values(random);
  const std::vector<std::uint8_t> labels{1, 7, 0, 3};

  network.forward(labels, nn::Mode::training);
  for (std::size_t layer = network.layer_count(); layer-- > 0;) network.backward(layer);
  // Along the gradient itself the slope is its square, and largest.
  std::vector<float> direction;
  double square = 0;
  for (const nn::Parameter* parameter : network.parameters()) {
    for (std::size_t i = 0; i < parameter->gradient.count(); ++i) {
      direction.push_back(parameter->gradient.as<float>()[i]);
      square += std::pow(static_cast<double>(direction.back()), 2);
    }
  }
  const float step = 1e-3F / static_cast<float>(std::sqrt(square));
  move(network, direction, step);
  const double above = network.forward(labels, nn::Mode::training).loss;
  move(network, direction, -2 * step);
  const double below = network.forward(labels, nn::Mode::training).loss;
  CHECK((above - below) / (2 * static_cast<double>(step)) == Approx(square).epsilon(0.02));
}

TEST_CASE("a network takes batches of any size, one after another") {
  nn::Network network = seeded("lenet", 3);
  const auto loss_of = [&](std::int64_t batch) {
    for (float& input : network.resize(batch)) input = 0.5F;
    const std::vector<std::uint8_t> labels(static_cast<std::size_t>(batch), 4);
    return network.forward(labels, nn::Mode::inference).loss;
  };
  const double one = loss_of(1);
  CHECK(loss_of(7) == Approx(7 * one).epsilon(1e-5));
  CHECK(loss_of(1) == one);
}
