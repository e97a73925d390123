#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kvstore/backend.h"

namespace tutti {

/// The rows that a row_sparse_pull asks for its i-th key, in ascending order, each once. Throws
/// `invalid_argument` for a number that is not whole, and for a row that the outputs do not have.
std::vector<std::int64_t> rows_of(const MethodCall& call, std::size_t i);

/// Copies these rows, and fills the other rows with zeros. Both tensors have the same shape and
/// dtype.
void copy_rows(std::span<const std::int64_t> rows, const Tensor& from, const Tensor& to);

}  // namespace tutti
