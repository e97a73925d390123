#include "shm/shared_cache.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

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

TEST_CASE("the shared cache is as large as the kernel says that one is") {
  const auto caches = largest_caches();
  if (caches.empty()) {
    WARN("skipped: the kernel lists no caches here");
    return;
  }
  CHECK(caches.contains(tutti::shm::shared_cache_bytes()));
}
