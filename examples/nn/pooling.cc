#include "nn/pooling.h"

#include "nn/memory.h"

namespace nn {

void Pooling::resize(std::int64_t batch) {
  const dnnl::engine& engine = context().engine;
  const auto algorithm = kind_ == Kind::maximum ? dnnl::algorithm::pooling_max
                                                : dnnl::algorithm::pooling_avg_exclude_padding;
  const dnnl::memory::dims window{height_, width_};
  const dnnl::memory::dims none(2, 0);
  in_ = activations(batch, input_);
  out_ = activations(batch, output());
  const dnnl::pooling_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, algorithm, in_, out_, window, window, none, none},
      engine);
  forward_ = dnnl::pooling_forward(forward);
  backward_ =
      dnnl::pooling_backward({{algorithm, in_, out_, window, window, none, none}, engine, forward});
  workspace_ = dnnl::memory(forward.workspace_desc(), engine);
}

void Pooling::forward(const Activations& at, Mode /*mode*/) {
  dnnl::stream stream = context().stream;
  forward_.execute(stream, {{DNNL_ARG_SRC, view(in_, stream, at.in)},
                            {DNNL_ARG_DST, view(out_, stream, at.out)},
                            {DNNL_ARG_WORKSPACE, workspace_}});
  stream.wait();
}

void Pooling::backward(const Activations& at) {
  if (at.d_in == nullptr) return;
  dnnl::stream stream = context().stream;
  backward_.execute(stream, {{DNNL_ARG_DIFF_DST, view(out_, stream, at.d_out)},
                             {DNNL_ARG_WORKSPACE, workspace_},
                             {DNNL_ARG_DIFF_SRC, view(in_, stream, at.d_in)}});
  stream.wait();
}

}  // namespace nn
