#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace tutti::ps {

/// Bounds how far a worker sends ahead of the servers' answers. A round needs all workers, and full
/// links give workers unequal shares. With this bound they stay in step, and answers leave while
/// later rounds come in. The window counts from the server that has answered least: a server that
/// is ahead would fill the link on which another server's rounds have to pass. If workers name keys
/// in different orders, none gets an answer before the window widens. For one thread. Sizes are in
/// bytes of elements.
class Window {
 public:
  using Time = base::Clock::time_point;
  /// At rates at which links are the bound, this is the time of some pieces, in either direction.
  static constexpr std::size_t least_bytes = std::size_t{512} << 10;
  /// This is longer than rounds of some 40 workers are apart, over a link of 1 Gbit/s.
  static constexpr base::Clock::duration patience = std::chrono::milliseconds(50);

  explicit Window(std::size_t servers) : flows_(servers) {}

  /// Whether one more request may be sent to this server.
  bool lets_through(std::size_t server);
  /// Notes that a request leaves. `bytes` are those of the request or of its answer, whichever are
  /// more.
  void send(std::size_t server, std::size_t bytes, Time now);
  /// Notes that such a request is answered or given up.
  void answer(std::size_t server, std::size_t bytes, Time now);
  /// Widens the window if a request has been held back and no answer came for `patience`.
  void look(Time now);
  /// The time at which `look` has something to do, unless an answer comes before.
  std::optional<Time> due() const;

 private:
  struct Flow {
    /// The bytes that the server has answered since the last time at which nothing was unanswered.
    /// If the server was idle meanwhile, the number that it would have if it had kept up with the
    /// others.
    std::size_t answered = 0;
    std::size_t unanswered = 0;
  };
  /// The least `answered` of the servers that have something to answer. If there is no such server,
  /// the largest number.
  std::size_t least_answered() const;
  void begin_anew();

  std::vector<Flow> flows_;
  std::size_t bytes_ = least_bytes;
  std::size_t unanswered_ = 0;  ///< the bytes that are not answered, by all servers together
  Time last_answer_{};          ///< the time of the last answer, or since when an answer is awaited
  bool holds_back_ = false;
  bool was_widened_ = false;  ///< since the window last narrowed, or could have narrowed
};

}  // namespace tutti::ps
