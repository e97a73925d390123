#pragma once
#include <cstddef>
#include <random>
#include <vector>

#include "nn/layer.h"

/// A layer on a batch of its own, whose "loss" is the outputs times fixed random numbers: enough to
/// compare what `backward` says with what `forward` does.
class LayerCheck {
 public:
  LayerCheck(nn::Layer& layer, const nn::Extent& input, std::int64_t batch);

  /// Distinct values at least 0.04 apart and away from zero, in random order, so that no step of
  /// the finite differences crosses the kink of a maximum.
  void spread_inputs();

  void forward();
  /// The largest difference between a gradient and its finite difference, over input and
  /// parameters, in relation to the largest gradient.
  double worst_error();

  std::vector<float> in, out, d_out, d_in;

 private:
  double loss();
  double worst_error(float* values, const float* gradients, std::size_t count);

  nn::Layer& layer_;
  std::mt19937 random_{7};
};
