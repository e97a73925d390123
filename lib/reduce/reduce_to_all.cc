// Reduces to several outputs, block by block. The copy is compiled once for each SIMD level:
// foreach_target.h includes this file again and again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/reduce_to_all.cc"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "base/cache_line.h"
#include "reduce/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::reduce::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Does the same as memcpy, and prefetches as many bytes from `ahead`, unless that is null.
/// `streaming` uses non-temporal stores; then `to` must begin a cache line.
void copy_asking(std::uint8_t* HWY_RESTRICT to, const std::uint8_t* HWY_RESTRICT from,
                 std::size_t bytes, const std::uint8_t* ahead, bool streaming) {
  constexpr std::size_t line = base::cache_line;
  const hn::CappedTag<std::uint8_t, line> d;
  const std::size_t lines = bytes / line * line;
  for (std::size_t i = 0; i < lines; i += line) {
    if (ahead != nullptr) hwy::Prefetch(ahead + i);
    for (std::size_t j = i; j < i + line; j += hn::Lanes(d)) {
      const auto v = hn::LoadU(d, from + j);
      if (streaming) {
        hn::Stream(v, d, to + j);
      } else {
        hn::StoreU(v, d, to + j);
      }
    }
  }
  std::memcpy(to + lines, from + lines, bytes - lines);
}

auto find_copy_asking() {
  return &copy_asking;
}

}  // namespace tutti::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <array>

namespace tutti::reduce {

HWY_EXPORT(find_copy_asking);

namespace {

/// A block is small, so that reads and writes alternate quickly, and prefetched lines are still in
/// the cache when they are used.
constexpr std::size_t block_bytes = 1024;

std::size_t into_line(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % base::cache_line;
}

/// The number of elements before the first one that begins a cache line; 0 if none does.
std::size_t before_line(const void* address, std::size_t width) {
  const std::size_t bytes = (base::cache_line - into_line(address)) % base::cache_line;
  return bytes % width == 0 ? bytes / width : 0;
}

const void* moved(const void* address, std::size_t bytes) {
  return static_cast<const std::byte*>(address) + bytes;
}

}  // namespace

void reduce_to_all(const Kernel& kernel, std::span<const void*> sources, std::span<void*> outs,
                   std::size_t count, bool streaming) {
  const std::size_t in = size_of(kernel.in);
  const std::size_t out = size_of(kernel.out);
  const auto copy = HWY_DYNAMIC_DISPATCH(find_copy_asking)();
  alignas(base::cache_line) std::array<std::uint8_t, block_bytes> block;
  // The first block ends where a cache line of the first output begins.
  std::size_t size = before_line(outs.front(), out);
  if (size == 0) size = block_bytes / out;
  while (count > 0) {
    size = std::min(size, count);
    reduce(kernel, sources, block.data(), size);
    const bool more = size < count;
    for (const void*& source : sources) source = moved(source, size * in);
    for (std::size_t i = 0; i < outs.size(); ++i) {
      auto* const to = static_cast<std::uint8_t*>(outs[i]);
      const void* const ahead = more && i < sources.size() ? sources[i] : nullptr;
      copy(to, block.data(), size * out, static_cast<const std::uint8_t*>(ahead),
           streaming && into_line(to) == 0);
      outs[i] = to + size * out;
    }
    count -= size;
    size = block_bytes / out;
  }
  if (streaming) hwy::FlushStream();
}

}  // namespace tutti::reduce
#endif
