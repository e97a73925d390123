#include "ps/protocol/rows.h"

#include <algorithm>
#include <cstring>

namespace tutti::ps {
namespace {

std::size_t row_count(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t dim : shape.dims().subspan(1)) count *= static_cast<std::size_t>(dim);
  return count;
}

/// Calls `work` with the elements of each row that are in the piece. A large value has many pieces,
/// so this looks only at rows of this piece.
template <typename Work>
void for_parts(std::span<const std::int64_t> rows, const Shape& shape, const Shard& piece,
               Work work) {
  const std::size_t count = row_count(shape);
  if (count == 0) return;
  auto next = std::ranges::lower_bound(rows, static_cast<std::int64_t>(piece.begin / count));
  for (; next != rows.end(); ++next) {
    const std::int64_t row = *next;
    const std::size_t begin = static_cast<std::size_t>(row) * count;
    if (begin >= piece.end) return;
    const Shard part{std::max(begin, piece.begin), std::min(begin + count, piece.end)};
    if (part.begin < part.end) work(row, part);
  }
}

}  // namespace

std::vector<std::int64_t> rows_within(std::span<const std::int64_t> rows, const Shape& shape,
                                      const Shard& piece) {
  std::vector<std::int64_t> within;
  for_parts(rows, shape, piece, [&](std::int64_t row, const Shard&) { within.push_back(row); });
  return within;
}

std::size_t count_of_rows(std::span<const std::int64_t> rows, const Shape& shape,
                          const Shard& piece) {
  std::size_t count = 0;
  for_parts(rows, shape, piece, [&](std::int64_t, const Shard& part) { count += part.count(); });
  return count;
}

void gather_rows(std::span<const std::int64_t> rows, const Shape& shape, const Shard& piece,
                 std::size_t element_bytes, const std::byte* from, std::byte* to) {
  for_parts(rows, shape, piece, [&](std::int64_t, const Shard& part) {
    const std::size_t bytes = part.count() * element_bytes;
    std::memcpy(to, from + (part.begin - piece.begin) * element_bytes, bytes);
    to += bytes;
  });
}

void scatter_rows(std::span<const std::int64_t> rows, const Shape& shape, const Shard& piece,
                  std::size_t element_bytes, const std::byte* from, std::byte* to_whole) {
  for_parts(rows, shape, piece, [&](std::int64_t, const Shard& part) {
    const std::size_t bytes = part.count() * element_bytes;
    std::memcpy(to_whole + part.begin * element_bytes, from, bytes);
    from += bytes;
  });
}

void clear_other_rows(std::span<const std::int64_t> rows, const Shape& shape,
                      std::size_t element_bytes, std::byte* whole) {
  if (shape.count() == 0) return;
  const std::size_t row_bytes = row_count(shape) * element_bytes;
  std::byte* next = whole;
  const auto clear_to = [&](std::int64_t row) {
    std::byte* const end = whole + static_cast<std::size_t>(row) * row_bytes;
    std::memset(next, 0, static_cast<std::size_t>(end - next));
    next = end + row_bytes;
  };
  for (const std::int64_t row : rows) clear_to(row);
  clear_to(shape.dims()[0]);
}

}  // namespace tutti::ps
