#include "dataset/images.h"

namespace dataset {

void Images::load(std::span<const std::uint32_t> samples, std::span<float> inputs,
                  std::span<std::uint8_t> out_labels) const {
  const auto size = static_cast<std::size_t>(extent.count());
  auto input = inputs.begin();
  auto label = out_labels.begin();
  for (const std::uint32_t sample : samples) {
    for (const std::uint8_t pixel : std::span(pixels).subspan(sample * size, size)) {
      *input++ = static_cast<float>(pixel) / brightest;
    }
    *label++ = labels[sample];
  }
}

}  // namespace dataset
