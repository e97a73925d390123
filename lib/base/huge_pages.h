#pragma once
#include <cstddef>
#include <span>

namespace tutti::base {

/// Bytes of a huge page that the kernel may put in place of small ones; 0 where it has none.
std::size_t huge_page_bytes();

/// Puts the reserved pages of shared memory, as far as they fill huge ones, into huge ones: these
/// cost fewer walks through page tables, and processors read ahead beyond 4 KiB. What is in them
/// stays. Blocks while they are copied. The kernel may have none left, or not know how to (before
/// Linux 6.1); then pages stay as they are.
///
/// Other mappings of the same file show them as huge pages, too, where their addresses are aligned
/// alike, as those of `Mapping` are.
void join_pages(std::span<std::byte> memory) noexcept;

}  // namespace tutti::base
