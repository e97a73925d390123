#pragma once
#include <map>
#include <string>

#include "tutti/key.h"

namespace tutti {

/// An update rule by name, and its parameters: what `KVStore::set_optimizer` takes. With w the
/// value, g the gradient times `rescale_grad`, and t the updates of the key so far:
///
/// | name | rule | parameters, and their defaults |
/// |---|---|---|
/// | sgd | v = momentum v - lr (g + wd w); w += v | momentum 0, nesterov 0 |
/// | nag | sgd with nesterov 1: w += momentum v - lr (g + wd w) | momentum 0 |
/// | adam | d = g + wd w; m, v: averages of d, d^2; w -= lr_t m / (sqrt(v) + epsilon) | beta1 0.9,
/// beta2 0.999, epsilon 1e-8 | | adamw | adam with d = g, after w -= lr wd w | as adam | | adagrad
/// | h += g^2; w -= lr (g / sqrt(h + epsilon) + wd w) | epsilon 1e-7 | | rmsprop | d = g + wd w; n:
/// average of d^2; w -= lr d / sqrt(n + epsilon) | gamma1 0.9, epsilon 1e-8, centered 0, gamma2
/// 0.9, clip_weights 0 | | lamb | adam's m and v of g, without bias; u = m / (sqrt(v) + epsilon) +
/// wd w; w -= lr \|w\| / \|u\| u | beta1 0.9, beta2 0.999, epsilon 1e-6, bias_correction 1,
/// lower_bound 0, upper_bound 0 |
///
/// lr_t is lr sqrt(1 - beta2^t) / (1 - beta1^t). With `centered`, rmsprop divides by sqrt(n - m^2 +
/// epsilon), m being the average of d, and has the momentum gamma2. The bounds are those of |w|.
/// These are MXNet's rules; a bound or `clip_weights` of 0 is none.
///
/// Every rule has `learning_rate` (lr; 0.001 for adam, adamw, rmsprop and lamb, else 0.01), `wd`
/// (0), `rescale_grad` (1), `clip_gradient` (0: none; else g, or d where there is one, is cut to
/// +-clip_gradient) and `multi_precision` (0; 1: an f16 or bf16 value has a master copy in f32, so
/// that small updates add up). Switches are 0 or 1.
struct Optimizer {
  /// Multiply the learning rate and the weight decay.
  struct Factors {
    double learning_rate = 1;
    double wd = 1;
    friend bool operator==(const Factors&, const Factors&) = default;
  };

  std::string name;
  std::map<std::string, double> parameters{};
  /// Of single keys; every other key has 1 and 1.
  std::map<Key, Factors> factors{};
  friend bool operator==(const Optimizer&, const Optimizer&) = default;
};

}  // namespace tutti
