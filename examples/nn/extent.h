#pragma once
#include <cstdint>

namespace nn {

/// One sample's activations. In memory they lie channels last, and a batch is samples one after
/// another, so that a dense layer reads a convolution's output as it is.
struct Extent {
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t channels = 1;

  std::int64_t count() const { return height * width * channels; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

}  // namespace nn
