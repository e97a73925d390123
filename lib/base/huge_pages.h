#pragma once
#include <cstddef>
#include <span>

namespace tutti::base {

/// The bytes of a transparent huge page; 0 if the kernel has none.
std::size_t huge_page_bytes();

/// Replaces small pages of shared memory by huge ones, where whole huge pages fit. The pages must
/// be reserved. Huge pages need fewer page-table walks, and processors prefetch across 4 KiB
/// boundaries in them. The contents stay. Blocks while the kernel copies the pages. If the kernel
/// has no huge page left, or cannot do it (before Linux 6.1), the pages stay as they are.
///
/// Other mappings of the same file get the huge pages, too, if their addresses have the same
/// alignment. Those of `Mapping` have.
void join_pages(std::span<std::byte> memory) noexcept;

}  // namespace tutti::base
