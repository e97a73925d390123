#include "collective/batch.h"

#include <algorithm>
#include <cstring>

namespace tutti::collective {
namespace {

/// Calls `visit(piece, first element of it, elements, elements before it in the range)` for each
/// piece that [begin, begin + count) touches.
template <typename Visit>
void for_each_piece(const Batch& batch, std::size_t begin, std::size_t count, const Visit& visit) {
  std::size_t start = 0;
  const std::size_t end = begin + count;
  for (const Piece& piece : batch.pieces) {
    const std::size_t from = std::max(begin, start);
    const std::size_t to = std::min(end, start + piece.count);
    if (from < to) visit(piece, from - start, to - from, from - begin);
    start += piece.count;
    if (start >= end) return;
  }
}

const std::byte* at(const void* base, std::size_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}

}  // namespace

std::size_t Batch::count() const {
  std::size_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.count;
  return sum;
}

void copy_in(const Batch& batch, std::size_t begin, std::size_t count, std::byte* to) {
  const std::size_t width = size_of(batch.dtype);
  const reduce::Kernel kernel{batch.dtype, batch.dtype, batch.op, 1};
  std::vector<const void*> devices;
  for_each_piece(
      batch, begin, count,
      [&](const Piece& piece, std::size_t first, std::size_t elements, std::size_t before) {
        std::byte* const target = to + before * width;
        if (piece.ins.empty()) {
          reduce::fill_identity(batch.dtype, batch.op, target, elements);
        } else if (piece.ins.size() == 1) {
          std::memcpy(target, at(piece.ins[0], first * width), elements * width);
        } else {
          devices.clear();
          for (const void* const device : piece.ins) devices.push_back(at(device, first * width));
          reduce::reduce(kernel, devices, target, elements);
        }
      });
}

void copy_out(const Batch& batch, std::size_t begin, std::size_t count, const std::byte* from) {
  const std::size_t width = size_of(batch.dtype);
  for_each_piece(
      batch, begin, count,
      [&](const Piece& piece, std::size_t first, std::size_t elements, std::size_t before) {
        for (void* const out : piece.outs) {
          std::memcpy(static_cast<std::byte*>(out) + first * width, from + before * width,
                      elements * width);
        }
      });
}

}  // namespace tutti::collective
