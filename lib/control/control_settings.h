#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mapping.h"
#include "base/patience.h"
#include "control/loss_slot.h"

namespace tutti::control {

/// Gathers the bytes of all ranks, by rank. Collective over all ranks. The runtime passes a
/// function that uses MPI; tests pass their own.
using AllGather = std::function<std::vector<std::string>(std::string mine)>;

inline constexpr base::Occasion creation{
    "while the store was created",
    "raise create_timeout, TUTTI_CREATE_SECONDS, if the ranks start far apart"};

struct ControlSettings {
  /// The network interface between nodes, such as "eth0". If it is empty, the system chooses one.
  std::string interface;
  /// If a rank gives no heartbeat for this long, it is lost.
  std::chrono::milliseconds heartbeat_timeout{30'000};
  /// Bounds each wait of `ControlPlane::open` and `share`.
  std::chrono::milliseconds create_timeout{300'000};
  /// Called at most once, with the first loss that a control thread of this process notices or is
  /// told of. That thread calls it before it tells other ranks of the loss. The function may take a
  /// moment, but must not wait.
  std::function<void(const FailedRank&)> on_loss;
  /// Every wait in `open` and `share` calls this function again and again. It throws if the wait is
  /// in vain, such as when a rank is lost. It may be empty.
  std::function<void()> look;
  /// 32 random bytes, new for each session and equal on all ranks.
  std::string secret;
  /// Whether messages between nodes are encrypted. The same on all ranks.
  bool encrypts = false;

  /// For tests: ranks with different labels count as ranks of different nodes.
  std::string node_label;
  /// For tests whose ranks are threads: maps the control segment, so that all ranks share one
  /// mapping and ThreadSanitizer sees their races. If it is empty, this rank makes a mapping of its
  /// own.
  std::function<std::shared_ptr<base::Mapping>(const base::Fd&, std::size_t)> map;
};

}  // namespace tutti::control
