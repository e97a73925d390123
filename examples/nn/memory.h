#pragma once
#include <dnnl.hpp>

#include "nn/layer.h"

namespace nn {

/// oneDNN's description of a batch of activations.
dnnl::memory::desc activations(std::int64_t batch, const Extent& extent);
/// The same memory as one row of features a sample.
dnnl::memory::desc rows(std::int64_t batch, const Extent& extent);
/// A one-dimensional array.
dnnl::memory::desc vector_of(std::int64_t count);
/// oneDNN's view of memory that somebody else owns. oneDNN takes no pointer to const, but writes
/// only to a primitive's destination.
dnnl::memory view(const dnnl::memory::desc& desc, const dnnl::stream& stream, const float* data);

/// The limit for initial weights of a layer that sums `inputs` products for each output and is
/// followed by a ReLU. It keeps the variance of activations the same from layer to layer.
float he_limit(std::int64_t inputs);

}  // namespace nn
