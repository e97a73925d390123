#include "runtime/inbox.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "tutti/error.h"

namespace tutti::runtime {

void Inbox::throw_if_dead() const {
  if (dead_) std::rethrow_exception(dead_);
}

void Inbox::admit(const Key& key) {
  if (in_flight_.insert(key).second) return;
  throw Error(
      ErrorCode::duplicate_key,
      fmt::format("key {} is in flight already on rank {}; wait for its Pending before it is used "
                  "again",
                  key.describe(), rank_));
}

void Inbox::submit(std::vector<TensorCall> calls) {
  const base::Lock lock(mutex_);
  throw_if_dead();
  std::size_t admitted = 0;
  try {
    for (; admitted < calls.size(); ++admitted) admit(calls[admitted].key);
    // Takes the room for all before it moves any.
    waiting_.insert(waiting_.end(), std::make_move_iterator(calls.begin()),
                    std::make_move_iterator(calls.end()));
  } catch (...) {
    while (admitted > 0) in_flight_.erase(calls[--admitted].key);
    throw;
  }
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
