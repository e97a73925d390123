#pragma once
#include <span>

#include "tutti/reduce_op.h"
#include "tutti/tensor.h"

namespace tutti {

/// The memory in which a store of one process keeps its values, and the operations on tensors
/// there. The memory is the host's or a GPU's. All tensors of one call of these functions have the
/// same dtype and shape.
class LocalMemory {
 public:
  LocalMemory() = default;
  virtual ~LocalMemory() = default;
  LocalMemory(const LocalMemory&) = delete;
  LocalMemory& operator=(const LocalMemory&) = delete;

  /// Returns a tensor with memory of its own. Its contents are arbitrary. Throws `internal` if
  /// there is no memory.
  virtual Tensor own(const Shape& shape, DType dtype) = 0;
  /// Both may be the same tensor.
  virtual void copy(const Tensor& from, const Tensor& to) = 0;
  /// Reduces `ins` into `out`, which may be one of them.
  virtual void merge(std::span<const Tensor> ins, const Tensor& out, ReduceOp op) = 0;

  // Some work can be done only on the host. These methods return tensors on the host, which are
  // valid until the next call of the same method. A copy is aligned to a cache line. The methods
  // block.

  /// Returns the sum, average, minimum or maximum of the tensors.
  virtual Tensor merged_on_host(std::span<const Tensor> ins, ReduceOp op) = 0;
  /// Returns a stored value.
  virtual Tensor on_host(const Tensor& value) = 0;
  /// Copies these elements into `to`. `on_host` and `to` may be the same tensor.
  virtual void put_back(const Tensor& on_host, const Tensor& to) = 0;
};

/// The memory of the host. Thread-safe.
LocalMemory& host_memory();

}  // namespace tutti
