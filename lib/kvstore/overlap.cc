#include "kvstore/overlap.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

namespace tutti {
namespace {

using Range = MemoryRange;

Range range_of(const Tensor& tensor, std::size_t key) {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data());
  return {begin, begin + tensor.bytes(), key, 0};
}

void sort_ranges(std::span<const Values> outs, std::vector<Range>& ranges) {
  ranges.clear();
  for (std::size_t key = 0; key < outs.size(); ++key) {
    for (const Tensor& out : outs[key]) {
      if (out.bytes() > 0) ranges.push_back(range_of(out, key));
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::uintptr_t furthest = 0;
  for (Range& range : ranges) range.furthest_end = furthest = std::max(furthest, range.end);
}

/// Walks down from the last output that begins before `in` ends; `furthest_end` says when no
/// earlier one can reach it.
bool in_the_way(const Range& in, const std::vector<Range>& outs, std::ptrdiff_t place) {
  const std::uintptr_t own = in.begin + static_cast<std::uintptr_t>(place);
  auto it = std::partition_point(outs.begin(), outs.end(),
                                 [&](const Range& out) { return out.begin < in.end; });
  while (it != outs.begin() && (--it)->furthest_end > in.begin) {
    const bool in_place = it->key == in.key && it->begin == own;
    if (it->end > in.begin && !in_place) return true;
  }
  return false;
}

/// What lies between the first byte and the last of all tensors.
Range bounds_of(std::span<const Values> lists) {
  Range bounds{std::numeric_limits<std::uintptr_t>::max(), 0, 0, 0};
  for (const Values& values : lists) {
    for (const Tensor& tensor : values) {
      if (tensor.bytes() == 0) continue;
      const Range range = range_of(tensor, 0);
      bounds.begin = std::min(bounds.begin, range.begin);
      bounds.end = std::max(bounds.end, range.end);
    }
  }
  return bounds;
}

bool apart(const Range& a, const Range& b) {
  return a.end <= b.begin || b.end <= a.begin;
}

Tensor copy_of(const Tensor& tensor) {
  // Default-initialised: every byte is written below.
  std::shared_ptr<std::byte[]> memory(new std::byte[tensor.bytes()]);
  std::memcpy(memory.get(), tensor.data(), tensor.bytes());
  return {std::shared_ptr<void>(memory, memory.get()), tensor.shape(), tensor.dtype(),
          tensor.device()};
}

}  // namespace

std::span<const Values> detach_overlapping_inputs(std::span<const Values> ins,
                                                  std::span<const Values> outs,
                                                  std::vector<Values>& detached,
                                                  std::vector<Range>& ranges,
                                                  std::span<const std::ptrdiff_t> places) {
  // Gradients and weights often lie in blocks of their own.
  if (apart(bounds_of(ins), bounds_of(outs))) return ins;
  sort_ranges(outs, ranges);
  for (std::size_t key = 0; key < ins.size(); ++key) {
    const std::ptrdiff_t place = places.empty() ? 0 : places[key];
    const auto must_move = [&](const Tensor& in) {
      return in.bytes() > 0 && in_the_way(range_of(in, key), ranges, place);
    };
    if (std::none_of(ins[key].begin(), ins[key].end(), must_move)) continue;
    if (ins.data() != detached.data()) {
      detached.assign(ins.begin(), ins.end());
      ins = detached;
    }
    std::vector<Tensor> tensors;
    for (const Tensor& in : ins[key]) tensors.push_back(must_move(in) ? copy_of(in) : in);
    detached[key] = Values(std::move(tensors));
  }
  return ins;
}

}  // namespace tutti
