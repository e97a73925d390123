#pragma once
#include <random>
#include <span>

#include "base/doorbell.h"
#include "collective/engine.h"

/// Drives an engine as the communication thread does: gates entered as far ahead as may be, a batch
/// started as soon as it may, a few yields, then sleep on the doorbell.
class Driver {
 public:
  Driver(tutti::collective::Engine& engine, tutti::base::Doorbell& bell, bool crowded)
      : engine_(engine), bell_(bell), crowded_(crowded) {}

  /// Moves all batches, in order. Throws, with the engine's description, when nothing happens for
  /// 20 seconds.
  void run(std::span<const tutti::collective::Batch> batches);
  /// From now on stops now and then, for some moments.
  void stumble(std::mt19937_64& random) { stumbling_ = &random; }
  /// How many batches were started while another moved.
  std::size_t started_early() const { return started_early_; }
  /// How many large ones were started while a large one and a small one before them were not done.
  std::size_t started_behind_small() const { return started_behind_small_; }
  /// Drives until `ready()`, which it calls again and again.
  template <typename Ready>
  void wait_for(const Ready& ready) {
    while (!attempt(ready)) {
    }
  }

 private:
  template <typename Ready>
  bool attempt(const Ready& ready) {
    const auto ticket = bell_.ticket();
    if (ready()) {
      waiting_ = false;
      return true;
    }
    pause(ticket);
    return false;
  }
  void pause(std::uint32_t ticket);

  tutti::collective::Engine& engine_;
  tutti::base::Doorbell& bell_;
  const bool crowded_;
  std::mt19937_64* stumbling_ = nullptr;
  std::size_t started_early_ = 0;
  std::size_t started_behind_small_ = 0;
  bool waiting_ = false;
  int yields_ = 0;
  tutti::base::Clock::time_point since_;
};
