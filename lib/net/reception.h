#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/handshake.h"

namespace tutti::net {

/// The listening side of handshakes, as a part of a thread's own loop. Never blocks. It closes and
/// logs a connection that sends anything but a handshake, or nothing for 5 s. It also closes the
/// oldest connection if too many wait, or if few descriptors of this process are left. If the other
/// end closes a connection, or if a connection comes from a rank that has already come, that is
/// only logged at the debug level.
class Reception {
 public:
  using Expects = std::function<bool(int rank)>;
  /// The ranks that are expected, and about how many of them come at the same time.
  struct Audience {
    Expects expects;
    std::size_t count = 0;
    /// This process may have no descriptor for another connection, and no stranger's connection to
    /// close. If this is true, callers wait until there is one. Otherwise `advance` throws.
    bool waits_for_room = false;
  };

  /// The listener outlives the reception. `when` ends sentences about strangers: " while the store
  /// was created".
  Reception(const base::Fd& listener, Identity me, Audience audience, const std::string& when = {});
  ~Reception();

  /// Readable when `advance` has something to do.
  const base::Fd& descriptor() const;
  /// The time at which `advance` has something to do even if nothing arrives; nothing if there is
  /// none.
  std::optional<base::Clock::time_point> deadline() const;
  /// The peers that have proved themselves since the last call. Throws `internal` if this process
  /// has no descriptor for another connection and no stranger has one, unless
  /// `Audience::waits_for_room` is set.
  std::vector<ProvenPeer> advance();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti::net
