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

/// The memory that a call leaves for the next one.
struct OverlapMemory {
  std::vector<MemoryRange> listed;  ///< the outputs, as the call lists them
  std::vector<MemoryRange> sorted;  ///< by address
  std::vector<std::size_t> order;   ///< of `listed` in `sorted`
};

using CopyOf = std::function<Tensor(const Tensor&)>;

/// Lists the memory ranges of the call's outputs in `memory`, and sorts them. `memory` serves one
/// call at a time. Throws `invalid_argument` if two outputs overlap, because one result would be
/// lost. The error names the keys of both. Costs O(n log n) in the number of tensors, and O(n) if
/// they lie in the same order as in the call before.
void sort_outputs(const MethodCall& call, OverlapMemory& memory);

/// Whether the next function would copy an input of a pushpull. `memory` has been filled by
/// `sort_outputs` from `outs`.
bool has_overlapping_inputs(std::span<const Values> ins, std::span<const Values> outs,
                            const OverlapMemory& memory);

/// Programs reuse arrays for several keys. So in one call the input of one key may overlap the
/// output of another. This function replaces each such input by a copy, so that the outputs may be
/// written in any order. Returns `ins` itself if nothing overlaps, and `detached` otherwise.
///
/// An overlap with an output of the same key needs no copy if that output begins exactly
/// `places[key]` bytes behind the input, because both then hold the same elements. If `places` is
/// empty, this number is 0 for every key. If the output begins at another place, the input is
/// copied.
///
/// All lists are ordered by key. `ins` may hold empty values, and may be `detached`. `copy_of_gpu`
/// copies a tensor on a GPU. `memory` has been filled by `sort_outputs` from `outs`.
///
/// Costs O(n log n) in the number of tensors, and O(n) if each output is its own key's input, or if
/// no input lies between outputs.
std::span<const Values> detach_overlapping_inputs(std::span<const Values> ins,
                                                  std::span<const Values> outs,
                                                  std::vector<Values>& detached,
                                                  const CopyOf& copy_of_gpu,
                                                  const OverlapMemory& memory,
                                                  std::span<const std::ptrdiff_t> places = {});

}  // namespace tutti
