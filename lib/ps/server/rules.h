#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ps/protocol/messages.h"

namespace tutti::ps {

/// The settings that all pieces of a server share.
struct Rules {
  int workers = 1;
  bool asynchronous = false;
  int staleness = unbounded;
  std::optional<Optimizer> optimizer{};
  /// By worker: set if the worker brings nothing more. It is the failure of the other workers'
  /// rounds that need this worker.
  std::vector<std::optional<Failure>> absent{};
  std::function<void(int worker, const Answer&)> send{};

  /// Whether the server ignores the worker's messages. It still reads a worker that has left.
  bool is_lost(std::size_t worker) const {
    return absent[worker] && absent[worker]->code != ErrorCode::aborted;
  }
};

}  // namespace tutti::ps
