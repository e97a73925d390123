#include "nn/memory.h"

#include <cmath>
#include <memory>
#include <utility>

namespace nn {
namespace {

tutti::Tensor zeros(const tutti::Shape& shape, tutti::Device device) {
  const std::shared_ptr<float[]> data(new float[shape.count()]());
  return {std::shared_ptr<void>(data, data.get()), shape, tutti::DType::f32, device};
}

}  // namespace

Parameter::Parameter(std::string name_, const tutti::Shape& shape, float low_, float high_,
                     tutti::Device device)
    : name(std::move(name_)),
      low(low_),
      high(high_),
      value(zeros(shape, device)),
      gradient(zeros(shape, device)) {}

dnnl::memory::desc activations(std::int64_t batch, const Extent& extent) {
  return {{batch, extent.channels, extent.height, extent.width},
          dnnl::memory::data_type::f32,
          dnnl::memory::format_tag::nhwc};
}

dnnl::memory::desc rows(std::int64_t batch, const Extent& extent) {
  return {{batch, extent.count()}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::nc};
}

dnnl::memory::desc vector_of(std::int64_t count) {
  return {{count}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::x};
}

dnnl::memory view(const dnnl::memory::desc& desc, const dnnl::stream& stream, const float* data) {
  return {desc, stream.get_engine(), const_cast<float*>(data)};
}

float he_limit(std::int64_t inputs) {
  return std::sqrt(6.0F / static_cast<float>(inputs));
}

}  // namespace nn
