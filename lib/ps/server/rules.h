#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ps/protocol/messages.h"

namespace tutti::ps {

/// What all pieces of a server need to know.
struct Rules {
  int workers = 1;
  bool asynchronous = false;
  int staleness = unbounded;
  std::optional<Optimizer> optimizer{};
  /// By worker: it brings nothing more. What the others are told whose rounds need it.
  std::vector<std::optional<Failure>> absent{};
  std::function<void(int worker, const Answer&)> send{};

  /// It is heard no more; one that has left still is.
  bool is_lost(std::size_t worker) const {
    return absent[worker] && absent[worker]->code != ErrorCode::aborted;
  }
};

}  // namespace tutti::ps
