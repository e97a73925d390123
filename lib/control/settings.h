#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mapping.h"
#include "control/loss.h"

namespace tutti::control {

/// Collective over all ranks: everyone's bytes, by rank. Given by the runtime (MPI) or a test.
using AllGather = std::function<std::vector<std::string>(std::string mine)>;

struct Settings {
  /// Network between nodes, e.g. "eth0"; empty: the system's choice.
  std::string interface;
  /// A rank without a sign of life for this long is lost.
  std::chrono::milliseconds heartbeat_timeout{30'000};
  /// Bounds each wait of `ControlPlane::open` and `share`.
  std::chrono::milliseconds create_timeout{300'000};
  /// Called at most once, with the first loss that a control thread of this process notices or is
  /// told, on that thread, before other ranks learn of it from here. It may take a moment, not
  /// wait.
  std::function<void(const LostRank&)> on_loss;
  /// Looked at by all that waits in `open` and `share`: throws when nobody will come any more. May
  /// be empty.
  std::function<void()> look;
  /// 32 random bytes of this very session, equal on all ranks.
  std::string secret;

  /// For tests: ranks with different labels count as ranks of different nodes.
  std::string node_label;
  /// For tests whose ranks are threads: maps the control segment, so that all see one mapping and
  /// ThreadSanitizer sees their races. Empty: a mapping of this rank's own.
  std::function<std::shared_ptr<base::Mapping>(const base::Fd&, std::size_t)> map;
};

}  // namespace tutti::control
