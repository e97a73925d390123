#include "runtime/inbox.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "tutti/error.h"

namespace tutti::runtime {

void Inbox::throw_if_dead() const {
  if (dead_) std::rethrow_exception(dead_);
}

void Inbox::submit(std::vector<TensorCall> calls) {
  const base::Lock lock(mutex_);
  throw_if_dead();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (in_flight_.insert(calls[i].key).second) continue;
    for (std::size_t undo = 0; undo < i; ++undo) in_flight_.erase(calls[undo].key);
    throw Error(
        ErrorCode::duplicate_key,
        fmt::format("key {} is in flight already on rank {}; wait for its Pending before it is "
                    "used again",
                    calls[i].key.describe(), rank_));
  }
  std::move(calls.begin(), calls.end(), std::back_inserter(waiting_));
}

void Inbox::submit(Submission call) {
  const base::Lock lock(mutex_);
  throw_if_dead();
  waiting_.push_back(std::move(call));
}

std::vector<Submission> Inbox::take() {
  const base::Lock lock(mutex_);
  return std::exchange(waiting_, {});
}

void Inbox::release(const Key& key) {
  const base::Lock lock(mutex_);
  in_flight_.erase(key);
}

std::vector<Key> Inbox::in_flight() const {
  const base::Lock lock(mutex_);
  return {in_flight_.begin(), in_flight_.end()};
}

void Inbox::check_alive() const {
  const base::Lock lock(mutex_);
  throw_if_dead();
}

std::vector<Submission> Inbox::die(std::exception_ptr error) {
  const base::Lock lock(mutex_);
  if (!dead_) dead_ = std::move(error);
  in_flight_.clear();
  return std::exchange(waiting_, {});
}

}  // namespace tutti::runtime
