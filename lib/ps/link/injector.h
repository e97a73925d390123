#pragma once
#include <cstdint>
#include <random>

namespace tutti::ps {

/// Decides which packets are lost, delayed or sent twice on purpose, so that tests see the
/// consequences.
class Injector {
 public:
  /// The rates, in per cent of all packets.
  struct Rates {
    int drop = 0;
    int delay = 0;
    int duplicate = 0;
    bool any() const { return drop > 0 || delay > 0 || duplicate > 0; }
  };
  enum class Fate : std::uint8_t { arrives, is_lost, comes_late, comes_twice };
  struct Counts {
    std::uint64_t dropped = 0;
    std::uint64_t delayed = 0;
    std::uint64_t duplicated = 0;
  };

  /// With the same seed, the same packets have the same fate.
  Injector(Rates rates, std::uint32_t seed) : rates_(rates), random_(seed) {}

  /// Draws the fate of the next packet.
  Fate next();
  const Counts& counts() const { return counts_; }

 private:
  const Rates rates_;
  std::minstd_rand random_;
  Counts counts_;
};

}  // namespace tutti::ps
