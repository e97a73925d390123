#include "nn/activation.h"

#include "nn/memory.h"

namespace nn {

void Activation::resize(std::int64_t batch) {
  const dnnl::engine& engine = context().engine;
  // The variants that compute the gradient from the output.
  const auto algorithm = function_ == Function::relu
                             ? dnnl::algorithm::eltwise_relu_use_dst_for_bwd
                             : dnnl::algorithm::eltwise_tanh_use_dst_for_bwd;
  data_ = rows(batch, input_);
  const dnnl::eltwise_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, algorithm, data_, 0, 0}, engine);
  forward_ = dnnl::eltwise_forward(forward);
  backward_ = dnnl::eltwise_backward({{algorithm, data_, data_, 0, 0}, engine, forward});
}

void Activation::forward(const Activations& at, Mode /*mode*/) {
  dnnl::stream stream = context().stream;
  forward_.execute(stream, {{DNNL_ARG_SRC, view(data_, stream, at.in)},
                            {DNNL_ARG_DST, view(data_, stream, at.out)}});
  stream.wait();
}

void Activation::backward(const Activations& at) {
  if (at.d_in == nullptr) return;
  dnnl::stream stream = context().stream;
  backward_.execute(stream, {{DNNL_ARG_DST, view(data_, stream, at.out)},
                             {DNNL_ARG_DIFF_DST, view(data_, stream, at.d_out)},
                             {DNNL_ARG_DIFF_SRC, view(data_, stream, at.d_in)}});
  stream.wait();
}

}  // namespace nn
