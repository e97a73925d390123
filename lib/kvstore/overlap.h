#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kvstore/backend.h"
#include "tutti/tensor.h"

namespace tutti {

/// The memory of a tensor.
struct MemoryRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::size_t key = 0;  ///< index of its key
};

/// Memory that one call leaves for the next.
struct OverlapMemory {
  std::vector<MemoryRange> listed;  ///< the outputs, as the call lists them
  std::vector<MemoryRange> sorted;  ///< by address
  std::vector<std::size_t> order;   ///< of `listed` in `sorted`
};

using CopyOf = std::function<Tensor(const Tensor&)>;

/// Lists and sorts the memory of the call's outputs in `memory`, which serves one call at a time.
/// Throws `invalid_argument` if two overlap, because one result would be lost. The error names the
/// keys of both. Costs O(n log n) in the number of tensors; O(n) if they lie in the same order as
/// in the call before.
void sort_outputs(const MethodCall& call, OverlapMemory& memory);

/// Programs reuse arrays across keys, so in one call an input of one key may lie where another
/// key's output goes. Replaces each such input by a copy, so that outputs may be written in any
/// order. Returns `ins` itself if nothing overlaps, else `detached`.
///
/// An overlap with an output of the same key needs no copy if that output begins exactly
/// `places[key]` bytes behind the input (`places` empty: 0), because both then hold the same
/// elements. If the output is shifted against that place, the input is copied. All lists are by
/// key. `ins` may hold empty values, and may be `detached`. `copy_of_gpu` copies a tensor on a GPU.
/// `memory` is what `sort_outputs` made of `outs`.
///
/// Costs O(n log n) in the number of tensors; O(n) if each output is its own key's input, or if no
/// input lies between outputs.
std::span<const Values> detach_overlapping_inputs(std::span<const Values> ins,
                                                  std::span<const Values> outs,
                                                  std::vector<Values>& detached,
                                                  const CopyOf& copy_of_gpu,
                                                  const OverlapMemory& memory,
                                                  std::span<const std::ptrdiff_t> places = {});

}  // namespace tutti
