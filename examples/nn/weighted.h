#pragma once
#include <dnnl.hpp>

#include "nn/layer.h"

namespace nn {

/// The arithmetic of a layer that multiplies by weights and may add a bias. The primitives decide
/// which product it is. Weights are kept in a plain layout, because ranks exchange them in that
/// layout. A primitive that is faster with another layout gets a copy in it.
class Weighted {
 public:
  explicit Weighted(dnnl::stream stream) : stream_(std::move(stream)) {}

  void build(const dnnl::primitive_desc& forward, const dnnl::primitive_desc& backward_data,
             const dnnl::primitive_desc& backward_weights, const dnnl::memory::desc& plain_weights);

  /// `bias` is null if the primitives were made without one.
  void forward(const Activations& at, const Parameter& weight, const Parameter* bias);
  void backward(const Activations& at, Parameter& weight, Parameter* bias);

 private:
  dnnl::memory packed(const Parameter& weight, const dnnl::memory::desc& wanted);

  dnnl::stream stream_;
  dnnl::primitive forward_, backward_data_, backward_weights_;
  dnnl::memory::desc in_, out_, bias_, plain_;
  /// The layouts in which each primitive takes the weights or writes their gradient.
  dnnl::memory::desc forward_weights_, backward_data_weights_, weights_gradient_;
};

}  // namespace nn
