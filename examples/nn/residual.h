#pragma once
#include <cstdint>
#include <string>

#include "nn/network.h"

namespace nn {

/// Appends the basic block of He et al. 2015: two 3×3 convolutions, each batch-normalised, whose
/// result is added to the block's input. If the block changes the number of channels, or its stride
/// the size, the input passes a 1×1 convolution first (their option B). The block has seven layers,
/// or nine.
void add_residual_block(Network& net, const std::string& name, std::int64_t channels,
                        std::int64_t stride);

}  // namespace nn
