#include "nn/batch_norm.h"

#include "nn/memory.h"

namespace nn {
namespace {

constexpr float epsilon = 1e-5F;
/// The part of the running statistics that a training batch leaves unchanged.
constexpr float inertia = 0.9F;

}  // namespace

BatchNorm::BatchNorm(const Context& context, const std::string& name, const Extent& input)
    : Layer(context),
      input_(input),
      scale_(name + "_gamma", {input.channels}, 1, 1, context.device),
      shift_(name + "_beta", {input.channels}, 0, 0, context.device),
      mean_(static_cast<std::size_t>(input.channels)),
      variance_(mean_.size()),
      running_mean_(mean_.size(), 0.0F),
      running_variance_(mean_.size(), 1.0F) {}

void BatchNorm::resize(std::int64_t batch) {
  const dnnl::engine& engine = context().engine;
  const auto affine = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  data_ = activations(batch, input_);
  channel_ = vector_of(input_.channels);
  const dnnl::batch_normalization_forward::primitive_desc training(
      {dnnl::prop_kind::forward_training, data_, epsilon, affine}, engine);
  training_ = dnnl::batch_normalization_forward(training);
  inference_ =
      dnnl::batch_normalization_forward({{dnnl::prop_kind::forward_inference, data_, epsilon,
                                          affine | dnnl::normalization_flags::use_global_stats},
                                         engine});
  backward_ = dnnl::batch_normalization_backward(
      {{dnnl::prop_kind::backward, data_, data_, epsilon, affine}, engine, training});
}

void BatchNorm::forward(const Activations& at, Mode mode) {
  dnnl::stream stream = context().stream;
  const bool training = mode == Mode::training;
  const float* mean = training ? mean_.data() : running_mean_.data();
  const float* variance = training ? variance_.data() : running_variance_.data();
  (training ? training_ : inference_)
      .execute(stream, {{DNNL_ARG_SRC, view(data_, stream, at.in)},
                        {DNNL_ARG_MEAN, view(channel_, stream, mean)},
                        {DNNL_ARG_VARIANCE, view(channel_, stream, variance)},
                        {DNNL_ARG_SCALE, view(channel_, stream, scale_.value.as<float>())},
                        {DNNL_ARG_SHIFT, view(channel_, stream, shift_.value.as<float>())},
                        {DNNL_ARG_DST, view(data_, stream, at.out)}});
  stream.wait();
  if (training) update_running_statistics();
}

void BatchNorm::update_running_statistics() {
  for (std::size_t c = 0; c < mean_.size(); ++c) {
    running_mean_[c] = inertia * running_mean_[c] + (1 - inertia) * mean_[c];
    running_variance_[c] = inertia * running_variance_[c] + (1 - inertia) * variance_[c];
  }
}

void BatchNorm::backward(const Activations& at) {
  dnnl::stream stream = context().stream;
  // oneDNN computes all three gradients together, but nobody reads the first layer's input
  // gradient.
  std::vector<float> unread(at.d_in == nullptr ? data_.get_size() / sizeof(float) : 0);
  float* d_in = at.d_in == nullptr ? unread.data() : at.d_in;
  backward_.execute(stream,
                    {{DNNL_ARG_SRC, view(data_, stream, at.in)},
                     {DNNL_ARG_MEAN, view(channel_, stream, mean_.data())},
                     {DNNL_ARG_VARIANCE, view(channel_, stream, variance_.data())},
                     {DNNL_ARG_SCALE, view(channel_, stream, scale_.value.as<float>())},
                     {DNNL_ARG_SHIFT, view(channel_, stream, shift_.value.as<float>())},
                     {DNNL_ARG_DIFF_DST, view(data_, stream, at.d_out)},
                     {DNNL_ARG_DIFF_SRC, view(data_, stream, d_in)},
                     {DNNL_ARG_DIFF_SCALE, view(channel_, stream, scale_.gradient.as<float>())},
                     {DNNL_ARG_DIFF_SHIFT, view(channel_, stream, shift_.gradient.as<float>())}});
  stream.wait();
}

}  // namespace nn
