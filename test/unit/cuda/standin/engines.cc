#include "engines.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>

namespace standin {
namespace {

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

BusyUntil* map_clocks(const std::string& shared) {
  int file = -1;
  if (!shared.empty()) {
    file = ::open(shared.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, sizeof(BusyUntil)) != 0) {
      throw std::system_error(errno, std::generic_category(), shared);
    }
  }
  const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const mapped = ::mmap(nullptr, sizeof(BusyUntil), PROT_READ | PROT_WRITE, kind, file, 0);
  if (file >= 0) ::close(file);
  if (mapped == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  return static_cast<BusyUntil*>(mapped);  // zeros are its first value
}

}  // namespace

EngineClocks::EngineClocks(const std::string& shared) : busy_(map_clocks(shared)) {}

EngineClocks::~EngineClocks() {
  ::munmap(static_cast<void*>(busy_), sizeof(BusyUntil));
}

EngineClocks::Slot EngineClocks::reserve(int device, Engine engine, const Speed& speed,
                                         std::size_t bytes) {
  auto& busy = (*busy_)[static_cast<std::size_t>(device)][static_cast<std::size_t>(engine)];
  double seconds = speed.delay;
  if (speed.rate > 0) seconds += static_cast<double>(bytes) / speed.rate;
  const auto taken = static_cast<std::int64_t>(seconds * 1e9);
  std::int64_t before = busy.load(std::memory_order_relaxed);
  Slot slot;
  do {
    slot.begin = std::max(before, now());
    slot.end = slot.begin + taken;
  } while (!busy.compare_exchange_weak(before, slot.end, std::memory_order_relaxed));
  return slot;
}

void sleep_until(std::int64_t nanoseconds) {
  if (nanoseconds <= now()) return;
  const timespec time{nanoseconds / 1'000'000'000LL, nanoseconds % 1'000'000'000LL};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
}

}  // namespace standin
