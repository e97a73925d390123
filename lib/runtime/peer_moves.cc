// This part of the executor moves tensors between two ranks.
#include <fmt/format.h>

#include <vector>

#include "base/failure.h"
#include "runtime/executor.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

/// The error that ended the store, worded as the error of one call.
std::exception_ptr error_of(const PeerCall& call, const std::exception_ptr& end) {
  try {
    std::rethrow_exception(end);
  } catch (const Error& error) {
    return std::make_exception_ptr(
        base::reworded(error, fmt::format("{}: {}", call.completion.what(), error.what())));
  } catch (...) {
    return end;
  }
}

}  // namespace

bool Executor::move_between_peers() {
  const bool moved = peers_.messenger().step(now());
  const std::vector<PeerSide::Ended> over = peers_.take_ended();
  if (!moved && over.empty()) return false;
  // This comes first, because a thread that waits for a call may read the counters as soon as the
  // call is done.
  tally_.peer_bytes.store(peers_.messenger().buffer_bytes(), std::memory_order_relaxed);
  tally_.bytes_to_peers.store(peers_.messenger().bytes_between_nodes(), std::memory_order_relaxed);
  for (const PeerSide::Ended& ended : over) end(ended.call, pointer_to(ended.error));
  return true;
}

// This rank stays until its transfers with single ranks are over. The other ranks see no
// difference.
bool Executor::depart_when_peers_allow() {
  if (!depart_ || departing_ || !peers_.messenger().has_left()) return false;
  departing_ = true;
  control_.announce_closing();
  participant_.depart();
  return true;
}

void Executor::end(const std::shared_ptr<PeerCall>& call, const std::exception_ptr& error) {
  end(std::shared_ptr<base::Completion>(call, &call->completion), call->holder, error);
}

void Executor::end_peer_calls(const std::exception_ptr& error) {
  for (const auto& call : peers_.drop_all()) end(call, error_of(*call, error));
}

}  // namespace tutti::runtime
