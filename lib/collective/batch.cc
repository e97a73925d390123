#include "collective/batch.h"

#include <algorithm>
#include <cstring>

#include "tutti/shard.h"

namespace tutti::collective {
namespace {

const std::byte* at(const void* base, std::size_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}

/// Copies in two streams at once, because processors then prefetch more lines than for one. 64 MiB
/// took 2 and 8 ranks 4 % less time.
void copy_by_halves(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t block = 256;
  const std::size_t half = bytes / 2 / block * block;
  for (std::size_t at = 0; at < half; at += block) {
    std::memcpy(to + at, from + at, block);
    std::memcpy(to + half + at, from + half + at, block);
  }
  std::memcpy(to + 2 * half, from + 2 * half, bytes - 2 * half);
}

/// Does the same as memcpy, but calls no function for tensors of one element, of which a batch may
/// have many.
void copy_plainly(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t large = std::size_t{32} << 10;
  if (bytes >= large) {
    copy_by_halves(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
    return;
  }
  switch (bytes) {
    case 2:
      std::memcpy(to, from, 2);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

}  // namespace

Rows Rows::of_part(std::size_t whole, int ranks, std::size_t begin, std::size_t count) {
  const auto n = static_cast<std::size_t>(ranks);
  const auto row = [&](std::size_t element) { return element / n + (element % n != 0 ? 1 : 0); };
  return {whole, ranks, {row(begin), row(begin + count)}};
}

topology::Range Rows::column(int rank) const {
  const Shard own = shard(whole, rank, ranks);
  return {own.begin + std::min(rows.begin, own.count()),
          own.begin + std::min(rows.end, own.count())};
}

std::size_t Rows::count() const {
  const auto n = static_cast<std::size_t>(ranks);
  const auto above = [&](std::size_t row) { return row <= whole / n ? row * n : whole; };
  return above(rows.end) - above(rows.begin);
}

std::size_t Batch::count() const {
  if (is_sharded()) return rows.count();
  if (is_all_to_all()) return shares.stretch.size();
  std::size_t sum = 0;
  for (const TensorPart& part : parts) sum += part.count;
  return sum;
}

void copy_in(const Batch& batch, const PartRange& part_range, std::byte* to, bool streaming) {
  const std::size_t width = size_of(batch.dtype);
  const TensorPart& part = batch.parts[part_range.part];
  const std::size_t offset = (part_range.first - part.in_first) * width;
  if (part.ins.empty()) {
    reduce::fill_identity(batch.dtype, batch.op, to, part_range.count);
  } else if (part.ins.size() == 1 || !is_reducing(batch.kind)) {
    copy_bytes(to, at(part.ins[0], offset), part_range.count * width, streaming);
  } else {
    std::vector<const void*> devices;
    for (const void* const in : part.ins) devices.push_back(at(in, offset));
    reduce::reduce({batch.dtype, batch.dtype, batch.op}, devices, to, part_range.count, streaming);
  }
}

void copy_in(const Batch& batch, topology::Range range, std::byte* to, bool streaming) {
  for_each_part_range(batch, range, [&](const PartRange& part_range) {
    copy_in(batch, part_range, to + part_range.before * size_of(batch.dtype), streaming);
  });
}

const std::byte* in_place(const Batch& batch, topology::Range range) {
  const std::byte* found = nullptr;
  for_each_part_range(batch, range, [&](const PartRange& part_range) {
    const TensorPart& part = batch.parts[part_range.part];
    if (part_range.count == range.size() && part.ins.size() == 1) {
      found = at(part.ins[0], (part_range.first - part.in_first) * size_of(batch.dtype));
    }
  });
  return found;
}

void copy_out(const Batch& batch, const PartRange& part_range, const void* from, bool streaming) {
  const std::size_t width = size_of(batch.dtype);
  const TensorPart& part = batch.parts[part_range.part];
  for (void* const out : part.outs) {
    std::byte* const to =
        static_cast<std::byte*>(out) + (part_range.first - part.out_first) * width;
    if (to != from) copy_bytes(to, from, part_range.count * width, streaming);
  }
}

void copy_out(const Batch& batch, topology::Range range, const std::byte* from, bool streaming) {
  for_each_part_range(batch, range, [&](const PartRange& part_range) {
    copy_out(batch, part_range, from + part_range.before * size_of(batch.dtype), streaming);
  });
}

void reduce_out(const Batch& batch, const reduce::Kernel& kernel, std::span<const void*> sources,
                topology::Range range, bool streaming) {
  const std::size_t width = size_of(batch.dtype);
  for_each_part_range(batch, range, [&](const PartRange& part_range) {
    const TensorPart& part = batch.parts[part_range.part];
    if (!part.outs.empty()) {
      std::byte* const out =
          static_cast<std::byte*>(part.outs.front()) + (part_range.first - part.out_first) * width;
      reduce::reduce(kernel, sources, out, part_range.count, streaming);
      copy_out(batch, part_range, out, streaming);
    }
    for (const void*& source : sources) source = at(source, part_range.count * width);
  });
}

void copy_bytes(void* to, const void* from, std::size_t bytes, bool streaming) {
  if (streaming) {
    reduce::reduce({DType::u8, DType::u8}, {&from, 1}, to, bytes, true);
  } else {
    copy_plainly(to, from, bytes);
  }
}

}  // namespace tutti::collective
