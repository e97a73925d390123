#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tutti/shard.h"
#include "tutti/tensor.h"

/// Rows of a value that is cut into pieces by elements. A row may lie in several pieces.
namespace tutti::ps {

/// Returns the rows of which the piece has elements, in ascending order. The shape is that of the
/// whole value, and has at least one dimension.
std::vector<std::int64_t> rows_within(std::span<const std::int64_t> rows, const Shape& shape,
                                      const Shard& piece);

/// The number of elements of these rows in the piece.
std::size_t count_of_rows(std::span<const std::int64_t> rows, const Shape& shape,
                          const Shard& piece);

/// Copies the rows' elements out of the piece, one row after another.
void gather_rows(std::span<const std::int64_t> rows, const Shape& shape, const Shard& piece,
                 std::size_t element_bytes, const std::byte* from, std::byte* to);

/// Puts the gathered elements at their places in the whole value.
void scatter_rows(std::span<const std::int64_t> rows, const Shape& shape, const Shard& piece,
                  std::size_t element_bytes, const std::byte* from, std::byte* to_whole);

/// Fills all rows of the whole value with zeros, except these.
void clear_other_rows(std::span<const std::int64_t> rows, const Shape& shape,
                      std::size_t element_bytes, std::byte* whole);

}  // namespace tutti::ps
