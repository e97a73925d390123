#pragma once
#include <span>

#include "tutti/reduce_op.h"
#include "tutti/tensor.h"

namespace tutti {

/// Memory in which a store of one process keeps its values, and the operations on tensors there: of
/// the host, or of a GPU. All tensors of one call of these functions have the same dtype and shape.
class LocalMemory {
 public:
  LocalMemory() = default;
  virtual ~LocalMemory() = default;
  LocalMemory(const LocalMemory&) = delete;
  LocalMemory& operator=(const LocalMemory&) = delete;

  /// A tensor of its own, with any contents. Throws `internal` when there is no memory.
  virtual Tensor own(const Shape& shape, DType dtype) = 0;
  /// They may be the same.
  virtual void copy(const Tensor& from, const Tensor& to) = 0;
  /// Reduces `ins` into `out`, which may be one of them.
  virtual void merge(std::span<const Tensor> ins, const Tensor& out, ReduceOp op) = 0;

  // Some work the host alone can do. These methods return tensors on the host, which hold until the
  // next call of the same method. A copy is aligned to a cache line. They block.

  /// The reduced tensors.
  virtual Tensor merged_on_host(std::span<const Tensor> ins, ReduceOp op) = 0;
  /// A value of the store's.
  virtual Tensor on_host(const Tensor& value) = 0;
  /// Gives `to`, which may be the value itself, these elements.
  virtual void put_back(const Tensor& on_host, const Tensor& to) = 0;
};

/// The host's. Thread-safe.
LocalMemory& host_memory();

}  // namespace tutti
