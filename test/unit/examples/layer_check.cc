#include "layer_check.h"

#include <algorithm>
#include <cmath>

LayerCheck::LayerCheck(nn::Layer& layer, const nn::Extent& input, std::int64_t batch)
    : layer_(layer) {
  in.resize(static_cast<std::size_t>(batch * input.count()));
  out.resize(static_cast<std::size_t>(batch * layer.output().count()));
  d_in.resize(in.size());
  d_out.resize(out.size());
  std::uniform_real_distribution<float> values(-1, 1);
  for (auto* list : {&in, &d_out}) {
    for (float& value : *list) value = values(random_);
  }
  for (const nn::Parameter* parameter : layer.parameters()) {
    for (std::size_t i = 0; i < parameter->value.count(); ++i) {
      parameter->value.as<float>()[i] = values(random_);
    }
  }
  layer.resize(batch);
}

void LayerCheck::spread_inputs() {
  const auto half = static_cast<float>(in.size()) / 2;
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i] = 0.04F * (static_cast<float>(i) - half + 0.5F);
  }
  std::ranges::shuffle(in, random_);
}

void LayerCheck::forward() {
  layer_.forward({in.data(), out.data(), d_out.data(), d_in.data()}, nn::Mode::training);
}

double LayerCheck::loss() {
  forward();
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    sum += static_cast<double>(out[i]) * static_cast<double>(d_out[i]);
  }
  return sum;
}

double LayerCheck::worst_error(float* values, const float* gradients, std::size_t count) {
  constexpr float step = 0.01F;
  double worst = 0;
  double scale = 1e-3;
  for (std::size_t i = 0; i < count; ++i) {
    const float kept = values[i];
    values[i] = kept + step;
    const double above = loss();
    values[i] = kept - step;
    const double below = loss();
    values[i] = kept;
    const auto gradient = static_cast<double>(gradients[i]);
    worst = std::max(worst, std::abs((above - below) / (2 * static_cast<double>(step)) - gradient));
    scale = std::max(scale, std::abs(gradient));
  }
  return worst / scale;
}

double LayerCheck::worst_error() {
  loss();
  layer_.backward({in.data(), out.data(), d_out.data(), d_in.data()});
  // `forward` does not touch gradients, so that they stay comparable.
  double worst = worst_error(in.data(), d_in.data(), in.size());
  for (const nn::Parameter* parameter : layer_.parameters()) {
    worst = std::max(worst, worst_error(parameter->value.as<float>(),
                                        parameter->gradient.as<float>(), parameter->value.count()));
  }
  return worst;
}
