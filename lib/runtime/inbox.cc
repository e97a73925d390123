#include "runtime/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/text.h"
#include "tutti/error.h"

namespace tutti::runtime {

void Inbox::throw_if_dead() {
  if (!dead_) return;
  told_ = true;
  std::rethrow_exception(dead_);
}

void Inbox::admit(TensorCall& call, std::string_view verb) {
  call.key_number = keys_.add(call.key);
  if (keys_.size() > in_flight_.size()) in_flight_.resize(keys_.size());
  std::optional<std::string_view>& in_flight = in_flight_[call.key_number];
  if (!in_flight) {
    in_flight = verb;
    return;
  }
  throw Error(ErrorCode::duplicate_key,
              fmt::format("{} is already in flight on rank {}: its {} is not done; wait for that "
                          "call before the key's next call",
                          coordinator::named(call.key), rank_, *in_flight),
              {.key = call.key});
}

// The thread that moves the executor ends these calls, or ends the store.
void Inbox::wait_for_ends(base::Lock& lock, std::span<const TensorCall> calls) {
  if (ending_.empty() || base::Completion::is_in_callback()) return;
  const auto is_ending = [this](const TensorCall& call) TUTTI_REQUIRES(mutex_) {
    return ending_.contains(keys_.add(call.key));
  };
  while (std::any_of(calls.begin(), calls.end(), is_ending)) {
    ended_.wait_until(lock, base::Clock::time_point::max());
  }
}

void Inbox::submit(std::shared_ptr<CallList> list) {
  base::Lock lock(mutex_);
  const std::span<TensorCall> calls = list->calls;
  const std::string_view verb = list->verb();
  wait_for_ends(lock, calls);
  throw_if_dead();
  std::size_t admitted = 0;
  try {
    for (; admitted < calls.size(); ++admitted) admit(calls[admitted], verb);
    waiting_.emplace_back(std::move(list));
  } catch (...) {
    while (admitted > 0) in_flight_[calls[--admitted].key_number].reset();
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
  for (const TensorCall* call : calls) {
    in_flight_[call->key_number].reset();
    if (!ending_.empty() && ending_.erase(call->key_number) > 0) ended_.notify_all();
  }
}

void Inbox::note_ending(std::span<const TensorCall* const> calls) {
  const base::Lock lock(mutex_);
  for (const TensorCall* call : calls) ending_.insert(call->key_number);
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
  in_flight_.assign(in_flight_.size(), std::nullopt);
  ending_.clear();
  ended_.notify_all();
  return std::exchange(waiting_, {});
}

std::size_t Inbox::keys() const {
  const base::Lock lock(mutex_);
  return in_flight_.size();
}

void Inbox::forget_keys() {
  const base::Lock lock(mutex_);
  keys_ = {};
  in_flight_ = std::vector<std::optional<std::string_view>>();
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
