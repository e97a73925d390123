#include "nn/weighted.h"

#include <unordered_map>

#include "nn/memory.h"

namespace nn {

void Weighted::build(const dnnl::primitive_desc& forward, const dnnl::primitive_desc& backward_data,
                     const dnnl::primitive_desc& backward_weights,
                     const dnnl::memory::desc& plain_weights) {
  forward_ = dnnl::primitive(forward);
  backward_data_ = dnnl::primitive(backward_data);
  backward_weights_ = dnnl::primitive(backward_weights);
  in_ = forward.src_desc(0);
  out_ = forward.dst_desc(0);
  bias_ = forward.weights_desc(1);
  plain_ = plain_weights;
  forward_weights_ = forward.weights_desc(0);
  backward_data_weights_ = backward_data.weights_desc(0);
  weights_gradient_ = backward_weights.diff_weights_desc(0);
}

dnnl::memory Weighted::packed(const Parameter& weight, const dnnl::memory::desc& wanted) {
  dnnl::memory plain = view(plain_, stream_, weight.value.as<float>());
  if (wanted == plain_) return plain;
  dnnl::memory copy(wanted, stream_.get_engine());
  dnnl::reorder(plain, copy).execute(stream_, plain, copy);
  return copy;
}

void Weighted::forward(const Activations& at, const Parameter& weight, const Parameter* bias) {
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, view(in_, stream_, at.in)},
      {DNNL_ARG_WEIGHTS, packed(weight, forward_weights_)},
      {DNNL_ARG_DST, view(out_, stream_, at.out)}};
  if (bias != nullptr) {
    arguments.emplace(DNNL_ARG_BIAS, view(bias_, stream_, bias->value.as<float>()));
  }
  forward_.execute(stream_, arguments);
  stream_.wait();
}

void Weighted::backward(const Activations& at, Parameter& weight, Parameter* bias) {
  const dnnl::memory d_out = view(out_, stream_, at.d_out);
  dnnl::memory plain = view(plain_, stream_, weight.gradient.as<float>());
  const bool unpack = weights_gradient_ != plain_;
  dnnl::memory gradient = unpack ? dnnl::memory(weights_gradient_, stream_.get_engine()) : plain;
  std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, view(in_, stream_, at.in)},
                                                  {DNNL_ARG_DIFF_DST, d_out},
                                                  {DNNL_ARG_DIFF_WEIGHTS, gradient}};
  if (bias != nullptr) {
    arguments.emplace(DNNL_ARG_DIFF_BIAS, view(bias_, stream_, bias->gradient.as<float>()));
  }
  backward_weights_.execute(stream_, arguments);
  if (unpack) dnnl::reorder(gradient, plain).execute(stream_, gradient, plain);
  if (at.d_in != nullptr) {
    backward_data_.execute(stream_, {{DNNL_ARG_DIFF_DST, d_out},
                                     {DNNL_ARG_WEIGHTS, packed(weight, backward_data_weights_)},
                                     {DNNL_ARG_DIFF_SRC, view(in_, stream_, at.d_in)}});
  }
  stream_.wait();
}

}  // namespace nn
