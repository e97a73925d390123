#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <fstream>

namespace tutti::base {
namespace {

/// MADV_COLLAPSE, which glibc 2.36 does not define. Unlike MADV_HUGEPAGE, it works on shared memory
/// even if /sys/kernel/mm/transparent_hugepage/shmem_enabled says never.
constexpr int collapse = 25;
/// The kernel returns EAGAIN while another process happens to hold a page.
constexpr int attempts = 3;

}  // namespace

std::size_t huge_page_bytes() {
  static const std::size_t bytes = [] {
    std::size_t value = 0;
    std::ifstream("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") >> value;
    return value;
  }();
  return bytes;
}

void join_pages(std::span<std::byte> memory) noexcept {
  const std::size_t huge = huge_page_bytes();
  if (huge == 0) return;
  const std::size_t ahead = -reinterpret_cast<std::uintptr_t>(memory.data()) % huge;
  if (memory.size() < ahead + huge) return;
  const std::size_t bytes = (memory.size() - ahead) / huge * huge;
  for (int i = 0; i < attempts; ++i) {
    if (::madvise(memory.data() + ahead, bytes, collapse) == 0 || errno != EAGAIN) return;
  }
}

}  // namespace tutti::base
