#include "nn/dense.h"

#include "nn/memory.h"

namespace nn {

Dense::Dense(const Context& context, const std::string& name, const Extent& input,
             std::int64_t outputs)
    : Layer(context),
      input_(input),
      outputs_(outputs),
      weight_(name + "_weight", {outputs, input.count()}, -he_limit(input.count()),
              he_limit(input.count()), context.device),
      bias_(name + "_bias", {outputs}, 0, 0, context.device),
      product_(context.stream) {}

void Dense::resize(std::int64_t batch) {
  using dnnl::memory;
  const dnnl::engine& engine = context().engine;
  const memory::dims dims{outputs_, input_.count()};
  const memory::desc weights(dims, memory::data_type::f32, memory::format_tag::any);
  const memory::desc in = rows(batch, input_);
  const memory::desc out = rows(batch, output());
  const memory::desc bias = vector_of(outputs_);

  const dnnl::inner_product_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, in, weights, bias, out}, engine);
  const dnnl::inner_product_backward_data::primitive_desc backward_data({in, weights, out}, engine,
                                                                        forward);
  const dnnl::inner_product_backward_weights::primitive_desc backward_weights(
      {in, weights, bias, out}, engine, forward);
  product_.build(forward, backward_data, backward_weights,
                 {dims, memory::data_type::f32, memory::format_tag::nc});
}

void Dense::forward(const Activations& at, Mode /*mode*/) {
  product_.forward(at, weight_, &bias_);
}

void Dense::backward(const Activations& at) {
  product_.backward(at, weight_, &bias_);
}

}  // namespace nn
