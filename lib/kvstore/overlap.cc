#include "kvstore/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "kvstore/methods.h"
#include "kvstore/order.h"

namespace tutti {
namespace {

MemoryRange range_of(const Tensor& tensor, std::size_t key) {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data());
  return {begin, begin + tensor.bytes(), key};
}

/// Throws if `b` begins before `a` ends, and the two keys may not share an output. They may if both
/// results are the same: if a key occurs twice, in types that allow it, or if two layers share
/// weights in a broadcast. `a` begins first.
void check_apart(const MethodCall& call, const MemoryRange& a, const MemoryRange& b) {
  const bool is_shared = call.method == Method::broadcast && a.end == b.end;
  const bool is_same =
      a.begin == b.begin && a.key != b.key && (is_shared || call.keys[a.key] == call.keys[b.key]);
  if (a.end <= b.begin || is_same) return;
  const auto [first, second] = std::minmax(a.key, b.key);
  const Key& key = call.keys[first];
  const std::string whose =
      first == second ? "two outputs of this key"
                      : fmt::format("its output and that of key {}", call.keys[second].describe());
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} of key {}: {} overlap in memory, so one result would be lost; give "
                          "each output memory of its own",
                          name(call), key.describe(), whose),
              {.key = key});
}

/// Whether `in` lies in an output of its own key that begins at the right place.
bool lies_in(const MemoryRange& in, const Values& own, std::ptrdiff_t place) {
  const std::uintptr_t begin = in.begin + static_cast<std::uintptr_t>(place);
  return begin <= in.begin && std::any_of(own.begin(), own.end(), [&](const Tensor& out) {
           const MemoryRange range = range_of(out, in.key);
           return range.begin == begin && in.end <= range.end;
         });
}

/// Whether an output other than the input's own, at its right place, overlaps `in`. Walks back from
/// the last output that begins before `in` ends. Outputs do not overlap each other, so they end in
/// the order in which they begin.
bool in_the_way(const MemoryRange& in, const std::vector<MemoryRange>& outs, std::ptrdiff_t place) {
  const std::uintptr_t own = in.begin + static_cast<std::uintptr_t>(place);
  auto it = std::partition_point(outs.begin(), outs.end(),
                                 [&](const MemoryRange& out) { return out.begin < in.end; });
  while (it != outs.begin() && (--it)->end > in.begin) {
    if (it->key != in.key || it->begin != own) return true;
  }
  return false;
}

/// Returns the range from the first byte of all tensors to the last.
MemoryRange bounds_of(std::span<const Values> lists) {
  MemoryRange bounds{std::numeric_limits<std::uintptr_t>::max(), 0, 0};
  for (const Values& values : lists) {
    for (const Tensor& tensor : values) {
      if (tensor.bytes() == 0) continue;
      const MemoryRange range = range_of(tensor, 0);
      bounds.begin = std::min(bounds.begin, range.begin);
      bounds.end = std::max(bounds.end, range.end);
    }
  }
  return bounds;
}

bool apart(const MemoryRange& a, const MemoryRange& b) {
  return a.end <= b.begin || b.end <= a.begin;
}

/// Whether no input lies between the first output and the last. Gradients and weights often lie in
/// blocks of their own, so this is quick to find.
bool are_apart(std::span<const Values> ins, std::span<const Values> outs,
               const OverlapMemory& memory) {
  if (memory.sorted.empty()) return true;
  const MemoryRange all{memory.sorted.front().begin, memory.sorted.back().end, 0};
  return ins.data() != outs.data() && apart(bounds_of(ins), all);
}

/// Whether the input must be copied, because an output that may be written earlier overlaps it.
/// `own` are the outputs of its key.
bool must_move(const MemoryRange& in, const Values& own, const OverlapMemory& memory,
               std::ptrdiff_t place) {
  if (in.begin == in.end) return false;
  // Outputs do not overlap each other, so an input that lies in one overlaps no other.
  return !lies_in(in, own, place) && in_the_way(in, memory.sorted, place);
}

Tensor copy_of(const Tensor& tensor) {
  // The memory is not zeroed, because every byte is written below.
  std::shared_ptr<std::byte[]> memory(new std::byte[tensor.bytes()]);
  std::memcpy(memory.get(), tensor.data(), tensor.bytes());
  return {std::shared_ptr<void>(memory, memory.get()), tensor.shape(), tensor.dtype(),
          tensor.device()};
}

}  // namespace

void sort_outputs(const MethodCall& call, OverlapMemory& memory) {
  auto& [listed, sorted, order] = memory;
  listed.clear();
  for (std::size_t key = 0; key < call.outs.size(); ++key) {
    for (const Tensor& out : call.outs[key]) {
      if (out.bytes() > 0) listed.push_back(range_of(out, key));
    }
  }
  sort_again(order, listed.size(), [ranges = listed.data()](std::size_t a, std::size_t b) {
    return ranges[a].begin < ranges[b].begin;
  });
  sorted.clear();
  for (const std::size_t i : order) {
    if (!sorted.empty()) check_apart(call, sorted.back(), listed[i]);
    sorted.push_back(listed[i]);
  }
}

bool has_overlapping_inputs(std::span<const Values> ins, std::span<const Values> outs,
                            const OverlapMemory& memory) {
  if (are_apart(ins, outs, memory)) return false;
  for (std::size_t key = 0; key < ins.size(); ++key) {
    const auto overlaps = [&](const Tensor& in) {
      return must_move(range_of(in, key), outs[key], memory, 0);
    };
    if (std::any_of(ins[key].begin(), ins[key].end(), overlaps)) return true;
  }
  return false;
}

std::span<const Values> detach_overlapping_inputs(std::span<const Values> ins,
                                                  std::span<const Values> outs,
                                                  std::vector<Values>& detached,
                                                  const CopyOf& copy_of_gpu,
                                                  const OverlapMemory& memory,
                                                  std::span<const std::ptrdiff_t> places) {
  if (are_apart(ins, outs, memory)) return ins;
  for (std::size_t key = 0; key < ins.size(); ++key) {
    const std::ptrdiff_t place = places.empty() ? 0 : places[key];
    const auto overlaps = [&](const Tensor& in) {
      return must_move(range_of(in, key), outs[key], memory, place);
    };
    if (std::none_of(ins[key].begin(), ins[key].end(), overlaps)) continue;
    if (ins.data() != detached.data()) {
      detached.assign(ins.begin(), ins.end());
      ins = detached;
    }
    std::vector<Tensor> tensors;
    for (const Tensor& in : ins[key]) {
      if (!overlaps(in)) {
        tensors.push_back(in);
      } else {
        tensors.push_back(in.device().kind == Device::Kind::gpu ? copy_of_gpu(in) : copy_of(in));
      }
    }
    detached[key] = Values(std::move(tensors));
  }
  return ins;
}

}  // namespace tutti
