#include "standin/engines.h"

#include <catch2/catch.hpp>
#include <chrono>

#include "../folder.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "machine.h"

using namespace tutti::cuda;

TEST_CASE("processes that share a device take turns at its engines") {
  const tutti::Folder folder;
  const standin::Speed speed{1e9, 1e-3};
  const std::string file = folder.path() + "/engines";
  standin::EngineClocks one(file);
  standin::EngineClocks other(file);
  const auto first = one.reserve(0, standin::Engine::h2d, speed, 5'000'000);
  const auto second = other.reserve(0, standin::Engine::h2d, speed, 1'000'000);
  CHECK(first.end - first.begin == 6'000'000);
  CHECK(second.begin == first.end);
  CHECK(other.reserve(0, standin::Engine::d2h, speed, 1).begin < first.end);
  CHECK(other.reserve(1, standin::Engine::h2d, speed, 1).begin < first.end);
}

TEST_CASE("a copy takes as long as the machine that is played") {
  const standin::Playing machine("h2d=100e6 h2d_delay=1e-3");
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  const Stream stream(gpu);
  const PinnedMemory host(gpu, 1'000'000);
  const DeviceMemory device(gpu, 1'000'000);
  const auto begin = std::chrono::steady_clock::now();
  stream.copy_to_device(device.data(), host.data(), 1'000'000);
  stream.synchronize();
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(11));
}
