#include "runtime/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tutti/error.h"

namespace tutti::runtime {

void Inbox::throw_if_dead() {
  if (!dead_) return;
  told_ = true;
  std::rethrow_exception(dead_);
}

void Inbox::admit(TensorCall& call) {
  call.key_number = keys_.add(call.key);
  if (keys_.size() > in_flight_.size()) in_flight_.resize(keys_.size());
  if (!in_flight_[call.key_number]) {
    in_flight_[call.key_number] = true;
    return;
  }
  throw Error(
      ErrorCode::duplicate_key,
      fmt::format("key {} is in flight already on rank {}; wait for its Pending before it is used "
                  "again",
                  call.key.describe(), rank_),
      {.key = call.key});
}

void Inbox::submit(std::shared_ptr<CallList> list) {
  const base::Lock lock(mutex_);
  const std::span<TensorCall> calls = list->calls;
  throw_if_dead();
  std::size_t admitted = 0;
  try {
    for (; admitted < calls.size(); ++admitted) admit(calls[admitted]);
    waiting_.emplace_back(std::move(list));
  } catch (...) {
    while (admitted > 0) in_flight_[calls[--admitted].key_number] = false;
    throw;
  }
}

void Inbox::submit(Submission call) {
  const base::Lock lock(mutex_);
  throw_if_dead();
  waiting_.push_back(std::move(call));
}

void Inbox::take(std::vector<Submission>& into) {
  const base::Lock lock(mutex_);
  std::swap(waiting_, into);
}

void Inbox::release(std::span<const TensorCall* const> calls) {
  const base::Lock lock(mutex_);
  for (const TensorCall* call : calls) in_flight_[call->key_number] = false;
}

std::vector<Key> Inbox::in_flight() const {
  const base::Lock lock(mutex_);
  std::vector<Key> keys;
  for (KeyIndex::Number number = 0; number < in_flight_.size(); ++number) {
    if (in_flight_[number]) keys.push_back(keys_.key(number));
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

void Inbox::check_alive() {
  const base::Lock lock(mutex_);
  throw_if_dead();
}

std::vector<Submission> Inbox::die(std::exception_ptr error) {
  const base::Lock lock(mutex_);
  if (!dead_) dead_ = std::move(error);
  in_flight_.assign(in_flight_.size(), false);
  return std::exchange(waiting_, {});
}

std::size_t Inbox::forget_keys() {
  const base::Lock lock(mutex_);
  keys_ = {};
  return std::exchange(in_flight_, {}).size();
}

void Inbox::note_told() {
  const base::Lock lock(mutex_);
  told_ = true;
}

bool Inbox::has_told() const {
  const base::Lock lock(mutex_);
  return told_;
}

}  // namespace tutti::runtime
