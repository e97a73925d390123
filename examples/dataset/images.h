#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/extent.h"

namespace dataset {

/// Labelled images, stored as bytes.
struct Images {
  nn::Extent extent;
  std::int64_t classes = 10;
  float brightest = 255;               ///< the pixel value that a network sees as 1
  std::vector<std::uint8_t> pixels{};  ///< channels last
  std::vector<std::uint8_t> labels{};  ///< below `classes`

  std::size_t count() const { return labels.size(); }
  /// Writes the samples with these indices one after another, in the form that a network takes. For
  /// each sample `inputs` has extent.count() numbers and `out_labels` one element.
  void load(std::span<const std::uint32_t> samples, std::span<float> inputs,
            std::span<std::uint8_t> out_labels) const;
};

struct Dataset {
  Images train;
  Images test;
};

}  // namespace dataset
