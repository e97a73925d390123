#include "collective/node_sum.h"

#include <array>

namespace tutti::collective {

namespace {

/// Integers give the same sum in every tree.
bool depends_on_tree(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64;
}

}  // namespace

bool NodeSum::joins(DType dtype) const {
  return !joins_.empty() && depends_on_tree(dtype);
}

bool NodeSum::is_pairwise(DType dtype, bool node_tree) {
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  return !narrow && (node_tree || !depends_on_tree(dtype));
}

void NodeSum::operator()(const reduce::Kernel& kernel, std::span<std::byte* const> places,
                         std::byte* out, std::size_t count) {
  if (joins(kernel.in)) return join(kernel, places, out, count);
  sources_.assign(places.begin(), places.end());
  reduce::reduce(kernel, sources_, out, count);
}

/// Sums in place. Only the last sum also divides, and goes to `out`.
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
