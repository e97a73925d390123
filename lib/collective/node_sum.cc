#include "collective/node_sum.h"

#include <array>

namespace tutti::collective {

void NodeSum::operator()(const reduce::Kernel& kernel, std::span<std::byte* const> places,
                         std::byte* out, std::size_t count) {
  if (!joins_.empty() && (kernel.in == DType::f32 || kernel.in == DType::f64)) {
    return join(kernel, places, out, count);
  }
  sources_.assign(places.begin(), places.end());
  reduce::reduce(kernel, sources_, out, count);
}

/// In place, but for the last sum, which divides.
void NodeSum::join(const reduce::Kernel& kernel, std::span<std::byte* const> places, std::byte* out,
                   std::size_t count) const {
  reduce::Kernel undivided = kernel;
  undivided.divisor = 1;
  for (const topology::Join& join : joins_) {
    const bool last = &join == &joins_.back();
    const std::array<const void*, 2> sources{places[join.left], places[join.right]};
    reduce::reduce(last ? kernel : undivided, sources, last ? out : places[join.left], count);
  }
}

}  // namespace tutti::collective
