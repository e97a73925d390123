#include "shm/shared_cache.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

using tutti::shm::shared_cache_bytes;
using tutti::shm::usable_cache;

namespace {

/// Bytes of the processors' largest caches, as the kernel lists them: 32768K.
std::set<std::size_t> largest_caches() {
  std::set<std::size_t> found;
  for (const auto& processor : std::filesystem::directory_iterator("/sys/devices/system/cpu")) {
    std::size_t largest = 0;
    for (int index = 0; index < 8; ++index) {
      std::ifstream file(processor.path() / ("cache/index" + std::to_string(index)) / "size");
      std::size_t kib = 0;
      if (file >> kib) largest = std::max(largest, kib << 10);
    }
    if (largest > 0) found.insert(largest);
  }
  return found;
}

}  // namespace

TEST_CASE("the shared cache is as large as the kernel says that one is, as far as it may be used") {
  std::set<std::size_t> usable;
  for (const std::size_t bytes : largest_caches()) {
    usable.insert(usable_cache(bytes, std::thread::hardware_concurrency()));
  }
  if (usable.empty()) {
    WARN("skipped: the kernel lists no caches here");
    return;
  }
  CHECK(usable.contains(shared_cache_bytes()));
}

TEST_CASE("a few processors do not count on all of a cache that serves a whole server") {
  constexpr std::size_t mib = std::size_t{1} << 20;
  CHECK(usable_cache(480 * mib, 2) == 64 * mib);
  CHECK(usable_cache(480 * mib, 96) == 480 * mib);
  CHECK(usable_cache(32 * mib, 1) == 32 * mib);
}
