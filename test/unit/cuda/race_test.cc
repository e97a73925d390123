// The thread sanitizer sees a missing wait: each case leaves one out, in a process of its own.
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "machine.h"

using namespace tutti::cuda;

namespace {

struct Scene {
  const Gpu gpu{0};
  const ContextGuard context{gpu};
  const Stream up{gpu};
  const Stream down{gpu};
  const Event there{gpu};
  const Event back{gpu};
  const PinnedMemory from{gpu, 1000};
  const PinnedMemory to{gpu, 1000};
  const DeviceMemory device{gpu, 1000};

  /// Sleeps until a stream is done, without learning that from CUDA.
  static void pass_time() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }
};

}  // namespace

TEST_CASE("host reads without waiting", "[.][race]") {
  const Scene scene;
  scene.up.copy_to_device(scene.device.data(), scene.from.data(), 1000);
  scene.up.copy_to_host(scene.to.data(), scene.device.data(), 1000);
  Scene::pass_time();
  CHECK(scene.to.data()[5] == scene.from.data()[5]);
}

TEST_CASE("host reads after the event of another stream", "[.][race]") {
  const Scene scene;
  scene.up.copy_to_device(scene.device.data(), scene.from.data(), 1000);
  scene.there.record(scene.up.handle());
  scene.down.wait_for(scene.there);
  scene.down.copy_to_host(scene.to.data(), scene.device.data(), 1000);
  Scene::pass_time();
  scene.there.wait();
  CHECK(scene.to.data()[5] == scene.from.data()[5]);
}

TEST_CASE("host overwrites what is being copied", "[.][race]") {
  const Scene scene;
  scene.up.copy_to_device(scene.device.data(), scene.from.data(), 1000);
  Scene::pass_time();
  scene.from.data()[5] = std::byte{1};
}

TEST_CASE("a stream reads what another writes", "[.][race]") {
  const Scene scene;
  scene.up.copy_to_device(scene.device.data(), scene.from.data(), 1000);
  Scene::pass_time();
  scene.down.copy_to_host(scene.to.data(), scene.device.data(), 1000);
  scene.down.synchronize();
}

TEST_CASE("a stream waits for an event before it is recorded", "[.][race]") {
  const Scene scene;
  scene.down.wait_for(scene.there);
  scene.up.copy_to_device(scene.device.data(), scene.from.data(), 1000);
  scene.there.record(scene.up.handle());
  Scene::pass_time();
  scene.down.copy_to_host(scene.to.data(), scene.device.data(), 1000);
  scene.down.synchronize();
}

TEST_CASE("another thread reads after a third has waited", "[.][race]") {
  const Scene scene;
  std::thread late([&] {
    Scene::pass_time();
    // Calls of its own teach a thread nothing of others' work.
    const ContextGuard context(scene.gpu);
    scene.back.record(scene.up.handle());
    CHECK(scene.to.data()[5] == std::byte{0xA5});
  });
  scene.down.copy_to_host(scene.to.data(), scene.device.data(), 1000);
  scene.down.synchronize();
  late.join();
}

TEST_CASE("all waits are there", "[.][no-race]") {
  const Scene scene;
  scene.up.copy_to_device(scene.device.data(), scene.from.data(), 1000);
  scene.there.record(scene.up.handle());
  scene.down.wait_for(scene.there);
  scene.down.copy_to_host(scene.to.data(), scene.device.data(), 1000);
  scene.back.record(scene.down.handle());
  while (!scene.back.is_done()) std::this_thread::yield();
  CHECK(scene.to.data()[5] == scene.from.data()[5]);
  scene.from.data()[5] = std::byte{1};
}

TEST_CASE("the thread sanitizer reports a missing wait, and none where all are") {
  if (!standin::is_sanitized()) return;
  const std::string report = "WARNING: ThreadSanitizer: data race";
  for (const std::string missing :
       {"host reads without waiting", "host reads after the event of another stream",
        "host overwrites what is being copied", "a stream reads what another writes",
        "a stream waits for an event before it is recorded",
        "another thread reads after a third has waited"}) {
    INFO(missing);
    const std::string said = standin::said_by(missing);
    INFO(said);
    CHECK(said.find(report) != std::string::npos);
  }
  const std::string said = standin::said_by("all waits are there");
  INFO(said);
  CHECK(said.find("ThreadSanitizer") == std::string::npos);
  CHECK(said.find("All tests passed") != std::string::npos);
}
