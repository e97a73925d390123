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
  /// By worker: set if the worker brings nothing more. Rounds of the other workers that need this
  /// worker fail with it.
  std::vector<std::optional<Failure>> absent{};
  std::function<void(int worker, const Answer&)> send{};

  /// Whether the server ignores the worker's messages. It still reads the messages of a worker that
  /// has left.
  bool is_lost(std::size_t worker) const {
    return absent[worker] && absent[worker]->code != ErrorCode::aborted;
  }
};

}  // namespace tutti::ps
