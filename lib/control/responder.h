#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "net/bytes.h"

namespace tutti::control {

/// Answers the ranks' messages, on rank 0. The control plane does not know what they mean. Only
/// tutti-coord uses a responder. If a responder throws, the session ends on every rank.
class Responder {
 public:
  static constexpr int everyone = -1;
  struct Outgoing {
    int to = everyone;
    net::Bytes message;
  };

  virtual ~Responder() = default;
  /// tutti-coord calls this before the other calls of a round, and at `next_tick()` at the latest.
  /// `now` is the time since the start of the session.
  virtual void tick(std::chrono::nanoseconds now) = 0;
  virtual std::optional<std::chrono::nanoseconds> next_tick() const = 0;
  virtual void receive(int from, net::ConstBytes message) = 0;
  virtual void note_lost(int rank, const std::string& reason) = 0;
  virtual std::vector<Outgoing> take_messages() = 0;
};

}  // namespace tutti::control
