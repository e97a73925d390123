#include "kvstore/local_values.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "reduce/reduce.h"

namespace tutti {
namespace {

constexpr std::align_val_t alignment{64};

}  // namespace

Tensor make_tensor(const Shape& shape, DType dtype) {
  void* memory = nullptr;
  if (shape.count() <= std::numeric_limits<std::size_t>::max() / size_of(dtype)) {
    memory = ::operator new(shape.count() * size_of(dtype), alignment, std::nothrow);
  }
  if (memory == nullptr) {
    throw Error(ErrorCode::internal,
                fmt::format("no memory for a tensor: {} {}", name(dtype), shape.describe()));
  }
  return {std::shared_ptr<void>(memory, [](void* p) { ::operator delete(p, alignment); }), shape,
          dtype};
}

void copy(const Tensor& from, const Tensor& to) {
  // Overlap: the same tensor may stand in a list twice. Null: a tensor without elements.
  if (from.bytes() > 0) std::memmove(to.data(), from.data(), from.bytes());
}

void merge(std::span<const Tensor> ins, const Tensor& out, ReduceOp op) {
  std::vector<const void*> sources;
  sources.reserve(ins.size());
  for (const Tensor& in : ins) sources.push_back(in.data());
  // `average` divides by the processes that contribute, and there is one.
  reduce::reduce({.in = out.dtype(), .out = out.dtype(), .op = op}, sources, out.data(),
                 out.count());
}

}  // namespace tutti
