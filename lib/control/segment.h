#pragma once
#include <atomic>
#include <cstdint>

#include "base/doorbell.h"
#include "control/ring.h"

namespace tutti::control {

/// What a rank has in its node's control segment; an array of these, by local index, is the whole
/// segment. All zeros is the fresh state.
struct Mailbox {
  base::Doorbell doorbell;  ///< of the rank's communication thread
  /// Counted up each second by the rank's link thread.
  alignas(64) std::atomic<std::uint64_t> heartbeat{0};
  /// The rank has left the job in good order: its end is no death.
  std::atomic<std::uint32_t> departed{0};
  Ring up;    ///< to the coordinator
  Ring down;  ///< from it
};

}  // namespace tutti::control
