#pragma once
#include <map>
#include <string>

#include "tutti/key.h"

namespace tutti {

/// An update rule by name, with its parameters, for `KVStore::set_optimizer`. The rules are
/// MXNet's.
///
/// In the formulas, w is the value, lr the learning rate, t the number of the key's updates so far,
/// and g the gradient times `rescale_grad`. `avg(x, b)` is a running average: it begins at 0, and
/// each update replaces it by b avg + (1 - b) x. |x| is the norm of the whole tensor.
///
///     sgd      v = momentum v - lr (g + wd w)
///              w += v
///     nag      v as in sgd
///              w += momentum v - lr (g + wd w)
///     adam     d = g + wd w
///              m = avg(d, beta1), v = avg(d^2, beta2)
///              w -= lr_t m / (sqrt(v) + epsilon), lr_t = lr sqrt(1 - beta2^t) / (1 - beta1^t)
///     adamw    w -= lr wd w
///              then as adam with d = g
///     adagrad  h += g^2
///              w -= lr (g / sqrt(h + epsilon) + wd w)
///     rmsprop  d = g + wd w
///              n = avg(d^2, gamma1)
///              w -= lr d / sqrt(n + epsilon)
///              with `centered`: m = avg(d, gamma1)
///                               v = gamma2 v - lr d / sqrt(n - m^2 + epsilon)
///                               w += v
///     lamb     m = avg(g, beta1), v = avg(g^2, beta2)
///              with `bias_correction`: m / (1 - beta1^t) and v / (1 - beta2^t) in their place
///              u = m / (sqrt(v) + epsilon) + wd w
///              w -= lr (|w| / |u|) u; if one of the two norms is 0, w -= lr u
///
/// Parameters of single rules, with their defaults:
/// - sgd: momentum 0; nesterov 0 (1 makes it nag)
/// - nag: momentum 0
/// - adam, adamw: beta1 0.9; beta2 0.999; epsilon 1e-8
/// - adagrad: epsilon 1e-7
/// - rmsprop: gamma1 0.9; epsilon 1e-8; centered 0; gamma2 0.9; clip_weights 0 (no bound; otherwise
///   each update ends by clipping w to +-clip_weights)
/// - lamb: beta1 0.9; beta2 0.999; epsilon 1e-6; bias_correction 1; lower_bound 0 and upper_bound 0
///   (bounds of |w| in the formula; 0 is no bound)
///
/// Parameters of every rule, with their defaults:
/// - learning_rate: lr. 0.001 for adam, adamw, rmsprop and lamb; 0.01 for the others.
/// - wd: the weight decay. 0.
/// - rescale_grad: 1.
/// - clip_gradient: 0 (no bound). Otherwise a rule clips g to +-clip_gradient; a rule whose formula
///   has a d clips d instead.
/// - multi_precision: 0. With 1, an f16 or bf16 value has a master copy in f32, so that small
///   updates add up.
///
/// Switches (nesterov, centered, bias_correction, multi_precision) are 0 or 1.
struct Optimizer {
  /// A key's learning rate is `learning_rate` times the rule's, and its weight decay is `wd` times
  /// the rule's.
  struct Factors {
    double learning_rate = 1;
    double wd = 1;
    friend bool operator==(const Factors&, const Factors&) = default;
  };

  std::string name;
  std::map<std::string, double> parameters{};
  /// The factors of single keys. Every other key has 1 and 1.
  std::map<Key, Factors> factors{};
  friend bool operator==(const Optimizer&, const Optimizer&) = default;
};

}  // namespace tutti
