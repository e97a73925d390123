#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kvstore/backend.h"

namespace tutti {

/// The rows for which a row_sparse_pull asks of its i-th key: ascending, each once. Throws
/// `invalid_argument` for a number that is not whole, and for a row that the outputs do not have.
std::vector<std::int64_t> rows_of(const MethodCall& call, std::size_t i);

/// Copies these rows; the others become zeros. Both tensors are alike.
void copy_rows(std::span<const std::int64_t> rows, const Tensor& from, const Tensor& to);

}  // namespace tutti
