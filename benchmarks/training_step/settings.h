#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "tutti/options.h"

namespace tutti::bench {

/// Steps of one kind: those that are measured, after those that are not.
struct Turns {
  int warmup, measured;
};

/// What the command line asks for.
struct StepSettings {
  std::string model = "vgg16";
  double scale = 1;
  double backward_ms = 100;
  double forward_ms = 0;
  bool busy = false;
  bool priority = true;
  std::optional<std::size_t> fusion_bytes;  ///< none: the store's default, as the next one
  std::optional<bool> replay;
  std::string wire = "none";
  int steps = 20;
  int warmup = 5;
  int alone = 0;  ///< 0: as many as `steps`, after as many as `warmup`
  std::optional<double> link_gbps;
  int hosts = 0;     ///< that there must be; 0: however many the store finds
  std::string json;  ///< empty: none
  std::string store = "dist_sync_mpi";

  double wire_bytes() const { return wire == "none" ? 4 : 2; }  ///< of an element
  Turns whole_steps() const { return {warmup, steps}; }
  /// Of compute, and of communication.
  Turns alone_steps() const { return alone > 0 ? Turns{0, alone} : whole_steps(); }
  /// Empty when the hosts that the store has found are those that were asked for.
  std::string what_is_wrong_with_hosts(int found) const;
  /// Of all steps, those with an exchange too, which may make them longer.
  double compute_seconds() const;
  /// What the store is created with: the environment's, but for what was asked for here.
  Options options() const;
};

/// Reads the command line. Returns nothing when all was said already (--help). Throws
/// `invalid_argument` that suggests the nearest name for a misspelt option.
std::optional<StepSettings> parse_step(int argc, const char* const* argv);

}  // namespace tutti::bench
