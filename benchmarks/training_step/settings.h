#pragma once
#include <cstddef>
#include <optional>
#include <string>

#include "tutti/options.h"

namespace tutti::bench {

/// How many steps of one kind are run: first steps that do not count, and then the measured ones.
struct Turns {
  int warmup, measured;
};

/// The settings of the command line.
struct StepSettings {
  std::string model = "vgg16";
  double scale = 1;
  double backward_ms = 100;
  double forward_ms = 0;
  bool busy = false;
  bool priority = true;
  std::optional<std::size_t> fusion_bytes;  ///< unset: the store's default; so is the next field
  std::optional<bool> replay;
  std::string wire = "none";
  int steps = 20;
  int warmup = 5;
  int alone = 0;  ///< 0: as many as `steps`, after `warmup` others
  std::optional<double> link_gbps;
  int hosts = 0;     ///< how many there must be; 0: any number
  std::string json;  ///< empty: none
  std::string store = "dist_sync_mpi";
  std::string optimizer;  ///< that servers update by; empty: sums come back

  double wire_bytes() const { return wire == "none" ? 4 : 2; }  ///< of an element
  Turns whole_steps() const { return {warmup, steps}; }
  /// For computing alone and for communication alone.
  Turns alone_steps() const { return alone > 0 ? Turns{0, alone} : whole_steps(); }
  /// Says what is wrong if the store has found another number of hosts than the user asked for.
  /// Empty if nothing is wrong.
  std::string what_is_wrong_with_hosts(int found) const;
  /// The time of all steps, including steps with communication, which may make them longer.
  double compute_seconds() const;
  /// The options of the store: the environment's, except those that the command line sets.
  Options options() const;
};

/// Reads the command line. Returns nothing if nothing is left to do (--help). Throws
/// `invalid_argument`, which suggests the most similar name for a misspelt option.
std::optional<StepSettings> parse_step(int argc, const char* const* argv);

}  // namespace tutti::bench
