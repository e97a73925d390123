#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "machine.h"

using namespace tutti::cuda;

static void fill(std::span<std::byte> memory, std::size_t seed) {
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(seed + 7 * i);
}

TEST_CASE("elements that are copied to a device and back are the same", "[gpu][sanitized]") {
  const Gpu gpu(0);
  const ContextGuard context(gpu);
  constexpr std::size_t bytes = 100'003;
  const PinnedMemory from(gpu, bytes);
  const PinnedMemory to(gpu, bytes);
  const DeviceMemory device(gpu, bytes);
  const Stream up(gpu);
  const Stream down(gpu);
  const Event there(gpu);
  const Event back(gpu);
  fill(from.span(), 1);

  up.copy_to_device(device.data(), from.data(), bytes);
  there.record(up.handle());
  down.wait_for(there);
  down.copy_to_host(to.data(), device.data(), bytes);
  back.record(down.handle());
  back.wait();

  CHECK(back.is_done());
  CHECK(std::ranges::equal(from.span(), to.span()));
}
