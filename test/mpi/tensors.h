#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "tutti/tutti.h"

/// Tensors of every kind, which several of the store tests exchange.
namespace store_test {

constexpr tutti::DType all_dtypes[] = {tutti::DType::f16, tutti::DType::bf16, tutti::DType::f32,
                                       tutti::DType::f64, tutti::DType::i8,   tutti::DType::u8,
                                       tutti::DType::i32, tutti::DType::i64};
constexpr tutti::ReduceOp all_ops[] = {tutti::ReduceOp::sum, tutti::ReduceOp::average,
                                       tutti::ReduceOp::min, tutti::ReduceOp::max};

/// A tensor of one dimension with memory of its own, or of the store's.
inline tutti::Tensor make_tensor(tutti::KVStore& store, std::size_t count, tutti::DType dtype,
                                 bool allocated = false) {
  const tutti::Shape shape{static_cast<std::int64_t>(count)};
  if (allocated) return store.allocate(shape, dtype);
  const std::shared_ptr<void> memory(std::calloc(count + 1, tutti::size_of(dtype)), std::free);
  return {memory, shape, dtype};
}

}  // namespace store_test
