#include "nn/network.h"

#include <algorithm>
#include <functional>
#include <random>

#include "nn/sum.h"
#include "tutti/error.h"

namespace nn {
namespace {

/// This uses no standard distribution. These differ between standard libraries; the generators do
/// not.
float uniform(std::mt19937_64& random, float low, float high) {
  constexpr int bits = 24;
  const auto drawn = static_cast<float>(random() >> (64 - bits));
  return low + (high - low) * (drawn / static_cast<float>(1 << bits));
}

void accumulate(const std::vector<float>& share, float* sum) {
  std::transform(share.begin(), share.end(), sum, sum, std::plus<>());
}

}  // namespace

Network::Network(const Extent& input, tutti::Device device)
    : context_{.device = device}, input_(input) {}

void Network::append(Node node) {
  last_reader_.resize(tap() + 1);
  last_reader_[node.from] = nodes_.size();
  if (node.other) last_reader_[*node.other] = nodes_.size();
  nodes_.push_back(std::move(node));
  loss_ = std::make_unique<SoftmaxLoss>(context_.stream, output().count());
  batch_ = 0;
}

void Network::add_sum(Tap other, const std::string& name) {
  if (extent(other) != output() || other == tap()) {
    throw tutti::Error(tutti::ErrorCode::invalid_argument,
                       "'" + name + "' needs two different inputs of the same extent");
  }
  append({std::make_unique<Sum>(context_, name, output()), tap(), other});
}

std::vector<Parameter*> Network::parameters() {
  std::vector<Parameter*> all;
  for (const Node& node : nodes_) {
    for (Parameter* parameter : node.layer->parameters()) all.push_back(parameter);
  }
  return all;
}

std::size_t Network::activation_bytes(std::int64_t batch) const {
  std::int64_t numbers = input_.count();
  for (const Node& node : nodes_) numbers += 2 * node.layer->output().count();
  return sizeof(float) * static_cast<std::size_t>(batch) * static_cast<std::size_t>(numbers);
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
  for (const Node& node : nodes_) {
    node.layer->resize(batch);
    activations_.emplace_back(elements(node.layer->output()));
    gradients_.emplace_back(elements(node.layer->output()));
  }
  loss_->resize(batch);
  batch_ = batch;
  return activations_.front();
}

Activations Network::around(const Node& node) {
  const auto give = static_cast<std::size_t>(&node - nodes_.data()) + 1;
  const auto gradient = [this](Tap tap) { return tap == 0 ? nullptr : gradients_[tap].data(); };
  Activations at{activations_[node.from].data(), activations_[give].data(), gradients_[give].data(),
                 gradient(node.from)};
  if (node.other) {
    at.in2 = activations_[*node.other].data();
    at.d_in2 = gradient(*node.other);
  }
  return at;
}

Score Network::forward(std::span<const std::uint8_t> labels, Mode mode) {
  for (const Node& node : nodes_) node.layer->forward(around(node), mode);
  return (*loss_)(activations_.back().data(), labels, gradients_.back().data());
}

void Network::backward(std::size_t layer) {
  const Node& node = nodes_[layer];
  Activations at = around(node);
  // If a later layer has already written its share of a gradient, this layer's share is added to
  // it.
  const auto set_aside = [&](float*& d_in, Tap tap, std::vector<float>& share) -> float* {
    if (d_in == nullptr || !read_later(tap, layer)) return nullptr;
    share.resize(gradients_[tap].size());
    return std::exchange(d_in, share.data());
  };
  float* const sum = set_aside(at.d_in, node.from, shares_[0]);
  float* const sum2 = set_aside(at.d_in2, node.other.value_or(0), shares_[1]);
  node.layer->backward(at);
  if (sum != nullptr) accumulate(shares_[0], sum);
  if (sum2 != nullptr) accumulate(shares_[1], sum2);
}

}  // namespace nn
