#include "nn/network.h"

#include <random>

namespace nn {
namespace {

/// The standard library's own distributions differ between machines; its generators do not.
float uniform(std::mt19937_64& random, float low, float high) {
  constexpr int bits = 24;
  const auto drawn = static_cast<float>(random() >> (64 - bits));
  return low + (high - low) * (drawn / static_cast<float>(1 << bits));
}

}  // namespace

Network::Network(const Extent& input, tutti::Device device)
    : context_{.device = device}, input_(input) {}

void Network::append(std::unique_ptr<Layer> layer) {
  layers_.push_back(std::move(layer));
  loss_ = std::make_unique<SoftmaxLoss>(context_.stream, output().count());
  batch_ = 0;
}

std::vector<Parameter*> Network::parameters() {
  std::vector<Parameter*> all;
  for (const auto& layer : layers_) {
    for (Parameter* parameter : layer->parameters()) all.push_back(parameter);
  }
  return all;
}

void Network::initialise(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (Parameter* parameter : parameters()) {
    for (float& value : std::span(parameter->value.as<float>(), parameter->value.count())) {
      value = uniform(random, parameter->low, parameter->high);
    }
  }
}

std::span<float> Network::resize(std::int64_t batch) {
  if (batch == batch_) return activations_.front();
  const auto elements = [batch](const Extent& extent) {
    return static_cast<std::size_t>(batch * extent.count());
  };
  activations_.assign(1, std::vector<float>(elements(input_)));
  gradients_.assign(1, {});
  for (const auto& layer : layers_) {
    layer->resize(batch);
    activations_.emplace_back(elements(layer->output()));
    gradients_.emplace_back(elements(layer->output()));
  }
  loss_->resize(batch);
  batch_ = batch;
  return activations_.front();
}

Activations Network::around(std::size_t layer) {
  return {activations_[layer].data(), activations_[layer + 1].data(), gradients_[layer + 1].data(),
          layer == 0 ? nullptr : gradients_[layer].data()};
}

Score Network::forward(std::span<const std::uint8_t> labels, Mode mode) {
  for (std::size_t i = 0; i < layers_.size(); ++i) layers_[i]->forward(around(i), mode);
  return (*loss_)(activations_.back().data(), labels, gradients_.back().data());
}

void Network::backward(std::size_t layer) {
  layers_[layer]->backward(around(layer));
}

}  // namespace nn
