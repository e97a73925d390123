#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "layer_check.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/convolution.h"
#include "nn/dense.h"
#include "nn/pooling.h"
#include "nn/softmax_loss.h"

namespace {

constexpr double tolerance = 5e-3;

float weight(nn::Layer& layer, std::size_t parameter, std::size_t element) {
  return layer.parameters()[parameter]->value.as<float>()[element];
}

}  // namespace

TEST_CASE("a convolution's gradients are its finite differences") {
  const nn::Extent input{6, 5, 3};
  const auto stride = GENERATE(1, 2);
  nn::Convolution layer(nn::Context{}, "conv", input,
                        {.channels = 4, .kernel = 3, .stride = stride, .padding = 1});
  CHECK(LayerCheck(layer, input, 2).worst_error() < tolerance);
}

TEST_CASE("a convolution is the sum over its window and the input's channels, plus the bias") {
  const nn::Extent input{4, 4, 2};
  nn::Convolution layer(nn::Context{}, "conv", input, {.channels = 3, .kernel = 3, .padding = 1});
  LayerCheck check(layer, input, 1);
  check.forward();
  REQUIRE(layer.output() == nn::Extent{4, 4, 3});
  // Row 0, column 2, output channel 1: the window's first row lies outside the image.
  double expected = weight(layer, 1, 1);
  for (std::size_t y = 1; y < 3; ++y) {
    for (std::size_t x = 0; x < 3; ++x) {
      for (std::size_t c = 0; c < 2; ++c) {
        expected += static_cast<double>(check.in[((y - 1) * 4 + x + 1) * 2 + c]) *
                    static_cast<double>(weight(layer, 0, ((2 + c) * 3 + y) * 3 + x));
      }
    }
  }
  CHECK(static_cast<double>(check.out[2 * 3 + 1]) == Approx(expected).epsilon(1e-4));
}

TEST_CASE("a dense layer's gradients are its finite differences") {
  const nn::Extent input{3, 2, 4};
  nn::Dense layer(nn::Context{}, "fc", input, 5);
  CHECK(LayerCheck(layer, input, 3).worst_error() < tolerance);
}

TEST_CASE("a layer whose input needs no gradient computes those of its weights alone") {
  const nn::Extent input{2, 2, 3};
  nn::Dense layer(nn::Context{}, "fc", input, 4);
  LayerCheck check(layer, input, 2);
  check.worst_error();
  const nn::Parameter& weights = *layer.parameters()[0];
  const std::vector<float> with(weights.gradient.as<float>(), weights.gradient.as<float>() + 48);
  std::fill_n(weights.gradient.as<float>(), 48, 0.0F);
  layer.backward({check.in.data(), check.out.data(), check.d_out.data(), nullptr});
  CHECK(std::equal(with.begin(), with.end(), weights.gradient.as<float>()));
}

TEST_CASE("an activation's gradients are its finite differences") {
  const nn::Extent input{3, 3, 4};
  const auto function = GENERATE(nn::Activation::Function::relu, nn::Activation::Function::tanh);
  nn::Activation layer(nn::Context{}, "act", input, function);
  LayerCheck check(layer, input, 2);
  check.spread_inputs();
  CHECK(check.worst_error() < tolerance);
  check.forward();
  for (std::size_t i = 0; i < check.in.size(); ++i) {
    const float x = check.in[i];
    const float y = function == nn::Activation::Function::relu ? std::max(0.0F, x) : std::tanh(x);
    CHECK(check.out[i] == Approx(y).margin(1e-5));
  }
}

TEST_CASE("pooling's gradients are its finite differences") {
  const nn::Extent input{5, 4, 3};  // the fifth row is dropped
  const auto kind = GENERATE(nn::Pooling::Kind::maximum, nn::Pooling::Kind::average);
  nn::Pooling layer(nn::Context{}, "pool", input, kind, 2);
  REQUIRE(layer.output() == nn::Extent{2, 2, 3});
  LayerCheck check(layer, input, 2);
  check.spread_inputs();
  CHECK(check.worst_error() < tolerance);
  check.forward();
  // An element of the second window of the first row, channel 2.
  const auto at = [&](std::size_t y, std::size_t x) { return check.in[(y * 4 + x) * 3 + 2]; };
  const std::vector window{at(0, 2), at(0, 3), at(1, 2), at(1, 3)};
  const float expected = kind == nn::Pooling::Kind::maximum
                             ? *std::ranges::max_element(window)
                             : std::accumulate(window.begin(), window.end(), 0.0F) / 4;
  CHECK(check.out[5] == Approx(expected));
}

TEST_CASE("a convolution without a bias has its weights alone, and their gradients") {
  const nn::Extent input{4, 5, 2};
  nn::Convolution layer(nn::Context{}, "conv", input,
                        {.channels = 3, .kernel = 3, .padding = 1, .bias = false});
  CHECK(layer.parameters().size() == 1);
  CHECK(LayerCheck(layer, input, 2).worst_error() < tolerance);
}

TEST_CASE("global pooling averages each channel over the image, whatever its sides") {
  const nn::Extent input{3, 5, 2};
  nn::GlobalPooling layer(nn::Context{}, "pool", input);
  REQUIRE(layer.output() == nn::Extent{1, 1, 2});
  LayerCheck check(layer, input, 3);
  CHECK(check.worst_error() < tolerance);
  check.forward();
  double sum = 0;  // of the second sample, channel 1
  for (std::size_t i = 0; i < 15; ++i) sum += static_cast<double>(check.in[30 + 2 * i + 1]);
  CHECK(static_cast<double>(check.out[3]) == Approx(sum / 15).epsilon(1e-4));
}

TEST_CASE("batch normalisation's gradients are its finite differences") {
  const nn::Extent input{2, 3, 4};
  nn::BatchNorm layer(nn::Context{}, "bn", input);
  CHECK(LayerCheck(layer, input, 3).worst_error() < tolerance);
}

TEST_CASE("batch normalisation infers with the averages that it saw in training") {
  const nn::Extent input{1, 1, 1};
  nn::BatchNorm layer(nn::Context{}, "bn", input);
  *layer.parameters()[0]->value.as<float>() = 1;  // scale; the shift is zero
  layer.resize(2);
  const std::vector<float> in{3, 7};  // mean 5, variance 4
  std::vector<float> out(2);
  const nn::Activations at{in.data(), out.data(), nullptr, nullptr};
  layer.forward(at, nn::Mode::inference);
  CHECK(out[1] == Approx(7).epsilon(1e-3));  // before any training: mean 0, variance 1
  for (int i = 0; i < 200; ++i) layer.forward(at, nn::Mode::training);
  CHECK(out[1] == Approx(1).epsilon(1e-3));
  layer.forward(at, nn::Mode::inference);
  CHECK(out[0] == Approx(-1).epsilon(1e-3));
}

TEST_CASE("the softmax loss's gradient is its finite difference") {
  const nn::Context context;
  nn::SoftmaxLoss loss(context.stream, 3);
  loss.resize(2);
  std::vector<float> scores{0.5F, -1.0F, 2.0F, 0.1F, 0.2F, -0.3F};
  const std::vector<std::uint8_t> labels{2, 0};
  std::vector<float> gradient(6);
  std::vector<float> scratch(6);
  loss(scores.data(), labels, gradient.data());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    constexpr float step = 0.01F;
    const float kept = scores[i];
    scores[i] = kept + step;
    const double above = loss(scores.data(), labels, scratch.data()).loss;
    scores[i] = kept - step;
    const double below = loss(scores.data(), labels, scratch.data()).loss;
    scores[i] = kept;
    CHECK(static_cast<double>(gradient[i]) == Approx((above - below) / 0.02).margin(1e-3));
  }
}

TEST_CASE("the loss of scores that say nothing is the logarithm of the number of classes") {
  const nn::Context context;
  nn::SoftmaxLoss loss(context.stream, 10);
  loss.resize(3);
  std::vector<float> scores(30);
  scores[15] = 0.001F;  // the second sample leans towards class 5
  std::vector<float> gradient(30);
  const nn::Score score = loss(scores.data(), std::vector<std::uint8_t>{1, 5, 9}, gradient.data());
  CHECK(score.loss == Approx(3 * std::log(10.0)).epsilon(1e-3));
  CHECK(score.correct == 1);
  CHECK(score.samples == 3);
}
