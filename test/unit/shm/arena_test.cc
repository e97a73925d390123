#include "shm/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "base/huge_pages.h"
#include "tutti/error.h"

using tutti::base::huge_page_bytes;
using tutti::shm::Arena;

namespace {

constexpr std::size_t megabyte = std::size_t{1} << 20;

std::shared_ptr<Arena> make(std::size_t bytes) {
  return Arena::create(bytes, tutti::base::map_file);
}

bool all_are(const void* memory, std::size_t bytes, unsigned char value) {
  const auto* const begin = static_cast<const unsigned char*>(memory);
  return std::all_of(begin, begin + bytes, [&](unsigned char byte) { return byte == value; });
}

/// Pages that exist, in bytes.
std::size_t resident(const Arena& arena) {
  struct stat state {};
  ::fstat(arena.file().get(), &state);
  return static_cast<std::size_t>(state.st_blocks) * 512;
}

/// The bytes in huge pages of the mapping that begins at this address.
std::size_t in_huge_pages(const std::byte* mapping) {
  std::ifstream maps("/proc/self/smaps");
  const std::string begin = fmt::format("{:x}-", reinterpret_cast<std::uintptr_t>(mapping));
  std::string word;
  while (maps >> word && !word.starts_with(begin)) {
  }
  while (maps >> word && word != "ShmemPmdMapped:") {
  }
  std::size_t kibibytes = 0;
  maps >> kibibytes;
  return kibibytes << 10U;
}

/// Whether the kernel joins pages of shared memory at all.
bool joins_pages() {
  const std::size_t huge = huge_page_bytes();
  if (huge == 0) return false;
  const auto file = tutti::base::create_memory_file("test", huge);
  tutti::base::reserve(file, 0, huge);
  const tutti::base::Mapping mapping(file, huge);
  mapping.data()[0] = std::byte{1};
  return ::madvise(mapping.data(), huge, 25 /* MADV_COLLAPSE */) == 0;
}

}  // namespace

TEST_CASE("a large allocation lies in huge pages, for its owner and for the others of the node") {
  if (!joins_pages()) {
    WARN("this kernel does not join pages of shared memory: not tested");
    return;
  }
  const std::size_t huge = huge_page_bytes();
  const auto arena = make(8 * huge);
  const auto small = arena->allocate(4096);
  const auto large = arena->allocate(2 * huge + 4096);
  const tutti::base::Mapping others(arena->file(), 8 * huge);
  auto* const begin = static_cast<std::byte*>(large.get());
  std::memset(begin, 1, 2 * huge + 4096);
  CHECK(in_huge_pages(arena->span().data()) == 2 * huge);
  const std::byte* const shown = others.data() + (begin - arena->span().data());
  CHECK(all_are(shown, 2 * huge + 4096, 1));
  CHECK(in_huge_pages(others.data()) == 2 * huge);
  CHECK(resident(*arena) == 2 * huge + 8192);
}

TEST_CASE("memory that is left out before a huge page is given to others") {
  const std::size_t huge = std::max(huge_page_bytes(), megabyte);
  const auto arena = make(2 * huge + 8192);
  const auto first = arena->allocate(4096);
  const auto large = arena->allocate(huge);
  const auto gap = arena->allocate(huge - 4096);
  CHECK(arena->allocate(8192) != nullptr);
}

TEST_CASE("where no huge page fits a large allocation takes the small ones") {
  const std::size_t huge = std::max(huge_page_bytes(), megabyte);
  const auto arena = make(huge + 4096);
  const auto first = arena->allocate(4096);
  CHECK(arena->allocate(huge) != nullptr);
}

TEST_CASE("allocations are aligned to pages, zeroed, inside the arena and apart") {
  const auto arena = make(64 * megabyte);
  std::mt19937 random(1);
  std::vector<std::pair<std::shared_ptr<void>, std::size_t>> kept;
  for (unsigned char i = 0; i < 100; ++i) {
    const std::size_t bytes = random() % 200'000;
    auto memory = arena->allocate(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(memory.get()) % 4096 == 0);
    auto* const begin = static_cast<std::byte*>(memory.get());
    CHECK(begin >= arena->span().data());
    CHECK(begin + bytes <= arena->span().data() + arena->span().size());
    CHECK(all_are(begin, bytes, 0));
    std::memset(begin, i + 1, bytes);
    kept.emplace_back(std::move(memory), bytes);
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CHECK(all_are(kept[i].first.get(), kept[i].second, static_cast<unsigned char>(i + 1)));
  }
}

TEST_CASE("an arena as large as the machine takes no memory until it is allocated from") {
  const auto arena = make(std::size_t{1} << 40);
  CHECK(resident(*arena) == 0);
  auto memory = arena->allocate(3 * megabyte);
  CHECK(resident(*arena) == 3 * megabyte);
  memory.reset();
  CHECK(resident(*arena) == 0);
}

TEST_CASE("freed ranges join and are used again, whatever the order") {
  const auto arena = make(megabyte);
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<void>> pages;
    pages.reserve(256);
    for (int i = 0; i < 256; ++i) pages.push_back(arena->allocate(4096));
    CHECK_THROWS_AS(arena->allocate(1), tutti::Error);
    std::shuffle(pages.begin(), pages.end(), random);
    while (!pages.empty()) pages.pop_back();
    CHECK(arena->allocate(megabyte) != nullptr);
  }
}

TEST_CASE(
    "memory is given back with the last copy of the pointer, and outlives the arena's owner") {
  auto arena = make(megabyte);
  auto memory = arena->allocate(megabyte);
  const auto copy = memory;
  memory.reset();
  CHECK_THROWS_WITH(arena->allocate(4096), Catch::Contains("allocate of 4096 bytes"));
  const std::weak_ptr<Arena> watch = arena;
  arena.reset();
  std::memset(copy.get(), 7, megabyte);
  CHECK(all_are(copy.get(), megabyte, 7));
  CHECK_FALSE(watch.expired());
}

TEST_CASE(
    "an allocation larger than the machine's memory is an error that says so, and takes nothing") {
  const std::size_t all = tutti::base::available_memory();
  const auto arena = make(4 * all);
  CHECK_THROWS_WITH(arena->allocate(3 * all), Catch::Contains("not enough memory"));
  CHECK(resident(*arena) == 0);
  CHECK_THROWS_WITH(arena->allocate(SIZE_MAX), Catch::Contains("this machine has"));
  CHECK(arena->allocate(4096) != nullptr);
}

TEST_CASE("a forked child that drops a tensor leaves its parent's alone") {
  const auto arena = make(megabyte);
  auto memory = arena->allocate(8192);
  std::memset(memory.get(), 9, 8192);
  const pid_t child = ::fork();
  if (child == 0) {
    memory.reset();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(all_are(memory.get(), 8192, 9));
}

TEST_CASE("threads allocate and free at once") {
  const auto arena = make(256 * megabyte);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (unsigned char id = 1; id <= 4; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random(id);
      for (int round = 0; round < 300; ++round) {
        const std::size_t bytes = 1 + random() % 30'000;
        const auto memory = arena->allocate(bytes);
        std::memset(memory.get(), id, bytes);
        if (!all_are(memory.get(), bytes, id)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(resident(*arena) == 0);
}
