#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tutti/tensor.h"

namespace tutti {

/// Where a tensor lies.
struct MemoryRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::size_t key = 0;              ///< its index
  std::uintptr_t furthest_end = 0;  ///< of all ranges up to this one in a sorted order
};

/// What one look at a call's tensors leaves for the next.
struct OverlapMemory {
  std::vector<MemoryRange> listed;  ///< the outputs, as the call lists them
  std::vector<MemoryRange> sorted;
  std::vector<std::size_t> order;  ///< of `listed` in `sorted`
};

/// Callers reuse arrays across keys: in one call an input of one key may lie where another key's
/// output goes. Gives the inputs with each such one replaced by a copy of its own, so that outputs
/// may be written in any order: `ins` itself where there is none, else `detached`. An output needs
/// none that begins exactly so many bytes behind the beginning of an input of the same key as
/// `places` says (empty: none); one that is shifted against that does. All lists are by key; `ins`
/// may hold empty values, and may be `detached`. `memory` is for one call at a time.
///
/// Costs n log n in the number of tensors; less where each output is its own key's input, and where
/// tensors lie in the order of the call before.
std::span<const Values> detach_overlapping_inputs(std::span<const Values> ins,
                                                  std::span<const Values> outs,
                                                  std::vector<Values>& detached,
                                                  OverlapMemory& memory,
                                                  std::span<const std::ptrdiff_t> places = {});

}  // namespace tutti
