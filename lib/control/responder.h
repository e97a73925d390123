#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "control/bytes.h"

namespace tutti::control {

/// What answers the ranks' messages on rank 0; to the control plane their contents are opaque. Used
/// by tutti-coord alone. What it throws ends the session at every rank.
class Responder {
 public:
  static constexpr int everyone = -1;
  struct Outgoing {
    int to = everyone;
    Bytes message;
  };

  virtual ~Responder() = default;
  /// Before every other call of a round, and at `next_tick()` at the latest. `now` counts from
  /// the start of the session.
  virtual void tick(std::chrono::nanoseconds now) = 0;
  virtual std::optional<std::chrono::nanoseconds> next_tick() const = 0;
  virtual void receive(int from, ConstBytes message) = 0;
  virtual void note_lost(int rank, const std::string& reason) = 0;
  virtual std::vector<Outgoing> take_messages() = 0;
};

}  // namespace tutti::control
