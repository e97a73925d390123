#pragma once
#include <cstdint>

namespace nn {

/// The extent of one sample's activations. In memory channels come last, and the samples of a batch
/// lie one after another, so that a dense layer can read a convolution's output as it is.
struct Extent {
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t channels = 1;

  std::int64_t count() const { return height * width * channels; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

}  // namespace nn
