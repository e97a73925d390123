#include "nn/convolution.h"

#include "nn/memory.h"

namespace nn {

Convolution::Convolution(const Context& context, const std::string& name, const Extent& input,
                         const Geometry& geometry)
    : Layer(context),
      input_(input),
      geometry_(geometry),
      weight_(name + "_weight",
              {geometry.channels, input.channels, geometry.kernel, geometry.kernel},
              -he_limit(input.channels * geometry.kernel * geometry.kernel),
              he_limit(input.channels * geometry.kernel * geometry.kernel), context.device),
      product_(context.stream) {
  if (geometry.bias) {
    bias_.emplace(name + "_bias", tutti::Shape{geometry.channels}, 0.0F, 0.0F, context.device);
  }
}

std::vector<Parameter*> Convolution::parameters() {
  if (bias_) return {&weight_, &*bias_};
  return {&weight_};
}

Extent Convolution::output() const {
  const auto positions = [this](std::int64_t length) {
    return (length + 2 * geometry_.padding - geometry_.kernel) / geometry_.stride + 1;
  };
  return {positions(input_.height), positions(input_.width), geometry_.channels};
}

void Convolution::resize(std::int64_t batch) {
  using dnnl::memory;
  const dnnl::engine& engine = context().engine;
  const memory::dims dims(weight_.value.shape().dims().begin(), weight_.value.shape().dims().end());
  const memory::desc weights(dims, memory::data_type::f32, memory::format_tag::any);
  const memory::desc in = activations(batch, input_);
  const memory::desc out = activations(batch, output());
  // For oneDNN an empty description means no bias.
  const memory::desc bias = bias_ ? vector_of(geometry_.channels) : memory::desc();
  const memory::dims strides(2, geometry_.stride);
  const memory::dims padding(2, geometry_.padding);
  const auto algorithm = dnnl::algorithm::convolution_direct;

  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, algorithm, in, weights, bias, out, strides, padding,
       padding},
      engine);
  const dnnl::convolution_backward_data::primitive_desc backward_data(
      {algorithm, in, weights, out, strides, padding, padding}, engine, forward);
  const dnnl::convolution_backward_weights::primitive_desc backward_weights(
      {algorithm, in, weights, bias, out, strides, padding, padding}, engine, forward);
  product_.build(forward, backward_data, backward_weights,
                 {dims, memory::data_type::f32, memory::format_tag::oihw});
}

void Convolution::forward(const Activations& at, Mode /*mode*/) {
  product_.forward(at, weight_, bias());
}

void Convolution::backward(const Activations& at) {
  product_.backward(at, weight_, bias());
}

}  // namespace nn
