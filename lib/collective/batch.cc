#include "collective/batch.h"

#include <cstring>

namespace tutti::collective {
namespace {

const std::byte* at(const void* base, std::size_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}

}  // namespace

std::size_t Batch::count() const {
  std::size_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.count;
  return sum;
}

void copy_in(const Batch& batch, topology::Range range, std::byte* to) {
  const std::size_t width = size_of(batch.dtype);
  const reduce::Kernel over_devices{batch.dtype, batch.dtype, batch.op};
  std::vector<const void*> devices;
  for_each_segment(batch, range, [&](const Segment& segment) {
    const Piece& piece = batch.pieces[segment.piece];
    std::byte* const target = to + segment.before * width;
    if (piece.ins.empty()) {
      reduce::fill_identity(batch.dtype, batch.op, target, segment.count);
    } else if (piece.ins.size() == 1 || batch.kind == Batch::Kind::broadcast) {
      std::memcpy(target, at(piece.ins[0], segment.first * width), segment.count * width);
    } else {
      devices.clear();
      for (const void* const in : piece.ins) devices.push_back(at(in, segment.first * width));
      reduce::reduce(over_devices, devices, target, segment.count);
    }
  });
}

const std::byte* in_place(const Batch& batch, topology::Range range) {
  const std::byte* found = nullptr;
  for_each_segment(batch, range, [&](const Segment& segment) {
    const Piece& piece = batch.pieces[segment.piece];
    if (segment.count == range.size() && piece.ins.size() == 1) {
      found = at(piece.ins[0], segment.first * size_of(batch.dtype));
    }
  });
  return found;
}

void copy_out(const Batch& batch, const Segment& segment, const void* from, bool streaming) {
  const std::size_t width = size_of(batch.dtype);
  for (void* const out : batch.pieces[segment.piece].outs) {
    std::byte* const to = static_cast<std::byte*>(out) + segment.first * width;
    if (to != from) copy_bytes(to, from, segment.count * width, streaming);
  }
}

void copy_out(const Batch& batch, topology::Range range, const std::byte* from, bool streaming) {
  for_each_segment(batch, range, [&](const Segment& segment) {
    copy_out(batch, segment, from + segment.before * size_of(batch.dtype), streaming);
  });
}

void copy_bytes(void* to, const void* from, std::size_t bytes, bool streaming) {
  if (streaming) {
    reduce::reduce({DType::u8, DType::u8}, {&from, 1}, to, bytes, true);
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace tutti::collective
