#pragma once
#include <dnnl.hpp>

#include "nn/layer.h"

namespace nn {

/// A batch of such activations, as oneDNN describes it.
dnnl::memory::desc activations(std::int64_t batch, const Extent& extent);
/// The same memory as one row of features a sample.
dnnl::memory::desc rows(std::int64_t batch, const Extent& extent);
/// A one-dimensional array.
dnnl::memory::desc vector_of(std::int64_t count);
/// oneDNN's view of memory that others own. It takes no pointer to const, but writes only what a
/// primitive calls its destination.
dnnl::memory view(const dnnl::memory::desc& desc, const dnnl::stream& stream, const float* data);

/// The limit for weights whose outputs each sum `inputs` products and then pass a ReLU: keeps the
/// variance of activations from layer to layer.
float he_limit(std::int64_t inputs);

}  // namespace nn
