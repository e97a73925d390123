#include "base/heap.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <thread>

#include "base/fd.h"

using namespace tutti::base;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t many = 100'000;

/// The memory of this process in MiB. It allocates nothing, because that would change what malloc
/// keeps.
long resident() {
  const Fd file(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text{};
  if (::read(file.get(), text.data(), text.size() - 1) <= 0) return -1;
  char* end = nullptr;
  std::strtol(text.data(), &end, 10);
  return std::strtol(end, nullptr, 10) * ::sysconf(_SC_PAGESIZE) / static_cast<long>(mebibyte);
}

struct Blocks {
  void take() {
    for (void*& block : blocks) {
      block = std::malloc(mebibyte);
      std::fill_n(static_cast<char*>(block), mebibyte, 1);
    }
  }
  /// The last one first, so that they end up in the free end of their thread's arena.
  void give_back() {
    std::for_each(blocks.rbegin(), blocks.rend(), [](void* block) { std::free(block); });
  }
  std::array<void*, 40> blocks{};
};

}  // namespace

TEST_CASE("a thread that ends returns the memory of its tables, up to the end of its arena") {
  // From now on malloc does not ask the system for a block of 1 MiB alone.
  void* volatile large = std::malloc(30 * mebibyte);
  std::free(large);
  const long before = resident();
  long used = 0;
  long after = 0;
  std::thread([&] {
    Blocks tables;
    tables.take();
    used = resident();
    return_memory_of(many, [&] { tables.give_back(); });
    after = resident();
  }).join();
  CHECK(used >= before + 40);
  CHECK(after <= before + 4);
}

// Run by itself: with MALLOC_PERTURB_, which Meson sets, malloc writes to all memory that it gives.
TEST_CASE("a thread that has used little memory takes little to return it", "[.][heap]") {
  long before = 0;
  long during = 0;
  std::thread([&] {
    before = resident();
    return_memory_of(many, [&] { during = resident(); });
  }).join();
  CHECK(during <= before + 2);
}
