#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/tensor.h"

namespace tutti::optimizer {

/// The state that an updater keeps for one key.
struct State {
  DType dtype = DType::f32;  ///< of the arrays below: f32, or f64 for f64 values
  std::int64_t updates = 0;
  std::vector<std::byte> master{};  ///< the value in f32; empty unless the value has 16 bits
  std::vector<std::vector<std::byte>> slots{};
};

}  // namespace tutti::optimizer
