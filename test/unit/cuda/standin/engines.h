#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "settings.h"

namespace standin {

inline constexpr std::size_t most_devices = 16;

/// The times until which each engine of each device is busy, in nanoseconds of CLOCK_MONOTONIC. All
/// processes see the same times.
using BusyUntil = std::array<std::array<std::atomic<std::int64_t>, engines>, most_devices>;

/// The engines of all devices, which processes share by a file if `shared` names one.
class EngineClocks {
 public:
  explicit EngineClocks(const std::string& shared);
  ~EngineClocks();
  EngineClocks(const EngineClocks&) = delete;
  EngineClocks& operator=(const EngineClocks&) = delete;

  struct Slot {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  /// Takes the engine for a piece of work, behind all that took it before.
  Slot reserve(int device, Engine engine, const Speed& speed, std::size_t bytes);

 private:
  BusyUntil* busy_;
};

/// Sleeps until that time of CLOCK_MONOTONIC.
void sleep_until(std::int64_t nanoseconds);

}  // namespace standin
