#include "ps/server/settings_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ps/protocol/missing.h"

namespace tutti::ps {
namespace {

/// The number of a leader's settings that are kept for workers that have not made them yet.
/// Settings of a worker that is further behind are not compared.
constexpr std::size_t most_applied = 1024;

std::string_view name(const Setting& setting) {
  static constexpr std::array<std::string_view, 3> names{
      "set_optimizer", "set_gradient_compression", "load_optimizer_states"};
  return names.at(setting.index());
}

/// Describes what distinguishes a setting from others of its name.
std::string describe(const Setting& setting) {
  if (const auto* const set = std::get_if<SetOptimizer>(&setting)) {
    return fmt::format("'{}'", set->optimizer.name);
  }
  if (const auto* const set = std::get_if<SetCompression>(&setting)) {
    const Compression& chosen = set->compression;
    if (chosen.threshold == 0) return fmt::format("'{}'", name(chosen.encoding));
    return fmt::format("'{}' with threshold {}", name(chosen.encoding), chosen.threshold);
  }
  return "";
}

bool agree(const Setting& a, const Setting& b) {
  if (a.index() != b.index()) return false;
  if (const auto* const set = std::get_if<SetOptimizer>(&a)) {
    return set->optimizer == std::get<SetOptimizer>(b).optimizer;
  }
  if (const auto* const set = std::get_if<SetCompression>(&a)) {
    return set->compression == std::get<SetCompression>(b).compression;
  }
  return true;
}

/// Two workers' settings that differ.
struct Pair {
  const Setting& first;
  int first_worker = 0;
  const Setting& other;
  int other_worker = 0;
};

std::string difference(const Pair& pair) {
  const auto& [first, first_worker, other, other_worker] = pair;
  if (first.index() != other.index()) {
    return fmt::format("worker {} called {}, but worker {} called {}", other_worker, name(other),
                       first_worker, name(first));
  }
  if (describe(first) == describe(other)) {
    return fmt::format("{}: worker {} passed other parameters or factors than worker {}",
                       name(first), other_worker, first_worker);
  }
  return fmt::format("{}: worker {} passed {}, but worker {} passed {}", name(first), other_worker,
                     describe(other), first_worker, describe(first));
}

Failure mismatch_of(const Pair& pair, std::string_view so, std::vector<int> ranks) {
  return {ErrorCode::mismatch,
          fmt::format("{}; {}, and all workers must pass the same", difference(pair), so),
          std::move(ranks)};
}

std::uint64_t sequence_of(const Setting& setting) {
  return std::visit([](const auto& one) { return one.sequence; }, setting);
}

}  // namespace

SettingsQueue::SettingsQueue(const Rules& rules, Apply apply, HasHeldRounds has_held_rounds)
    : rules_(rules),
      apply_(std::move(apply)),
      has_held_rounds_(std::move(has_held_rounds)),
      queues_(static_cast<std::size_t>(rules.workers)),
      answered_(queues_.size()) {}

bool SettingsQueue::waits_for(int worker) const {
  return queues_[static_cast<std::size_t>(worker)].empty() &&
         std::ranges::any_of(queues_, [](const auto& queue) { return !queue.empty(); });
}

/// The leading worker of an asynchronous store. None if all have left or are lost.
std::optional<std::size_t> SettingsQueue::leader() const {
  const auto& absent = rules_.absent;
  const auto first = std::ranges::find(absent, false, &std::optional<Failure>::has_value);
  if (first == absent.end()) return std::nullopt;
  return static_cast<std::size_t>(first - absent.begin());
}

std::optional<Failure> SettingsQueue::missing_for(std::size_t worker,
                                                  const Queue::const_iterator& request) const {
  const auto before = static_cast<std::size_t>(request - queues_[worker].begin());
  std::vector<int> missing;
  for (std::size_t other = 0; other < queues_.size(); ++other) {
    const bool is_late = rules_.asynchronous ? other == leader() : queues_[other].size() <= before;
    if (is_late) missing.push_back(static_cast<int>(other));
  }
  if (missing.empty()) return std::nullopt;
  return not_made(std::move(missing), fmt::format("call of {}", name(request->setting)));
}

std::optional<Failure> SettingsQueue::missing_for(int worker) const {
  const auto at = static_cast<std::size_t>(worker);
  if (queues_[at].empty()) return std::nullopt;
  return missing_for(at, queues_[at].begin());
}

std::optional<Failure> SettingsQueue::recall(int worker, const Recall& said) {
  const auto at = static_cast<std::size_t>(worker);
  Queue& queue = queues_[at];
  const auto request = std::ranges::find(
      queue, said.request, [](const Queued& one) { return sequence_of(one.setting); });
  if (request == queue.end()) return std::nullopt;
  request->is_held = said.step == Recall::Step::hold;
  if (said.step == Recall::Step::give_up) request->given_up = said.failure;
  return missing_for(at, request);
}

void SettingsQueue::advance() {
  if (rules_.asynchronous) return advance_in_turn();
  while (bury() || fail_given_up() || advance_together() || fail_for_absent()) {
  }
}

/// Answers the worker's first setting with a failure. The setting does not count.
void SettingsQueue::refuse(std::size_t worker, const std::optional<Failure>& failure) {
  const std::uint64_t sequence = sequence_of(queues_[worker].front().setting);
  queues_[worker].pop_front();
  rules_.send(static_cast<int>(worker), {sequence, failure, {}});
}

void SettingsQueue::answer(std::size_t worker, const std::optional<Failure>& failure) {
  ++answered_[worker];
  refuse(worker, failure);
}

void SettingsQueue::answer_all(const std::optional<Failure>& failure) {
  for (std::size_t worker = 0; worker < queues_.size(); ++worker) {
    if (!queues_[worker].empty()) answer(worker, failure);
  }
}

/// The reason why the worker's first setting fails, if it fails. Nobody knows whether a lost worker
/// would have released a setting that it held.
std::optional<Failure> SettingsQueue::given_up(std::size_t worker) const {
  if (queues_[worker].empty()) return std::nullopt;
  const Queued& request = queues_[worker].front();
  if (request.is_held && rules_.is_lost(worker)) return rules_.absent[worker];
  return request.given_up;
}

bool SettingsQueue::is_held() const {
  return std::ranges::any_of(
      queues_, [](const Queue& queue) { return !queue.empty() && queue.front().is_held; });
}

/// Answers workers whose first setting belongs to those that have failed.
bool SettingsQueue::bury() {
  bool moved = false;
  for (std::size_t at = 0; at < queues_.size() && !tombstones_.empty(); ++at) {
    const int worker = static_cast<int>(at);
    if (rules_.absent[at] && queues_[at].empty()) tombstones_.forget(worker);
    const Failure* const failure = tombstones_.first(worker);
    if (failure == nullptr || queues_[at].empty()) continue;
    answer(at, *failure);
    tombstones_.take(worker);
    moved = true;
  }
  return moved;
}

/// Fails a setting that a worker has given up. Workers that have made theirs hear of it at once,
/// and the others when they make it.
bool SettingsQueue::fail_given_up() {
  std::optional<Failure> failure;
  std::set<int> absent;
  for (std::size_t at = 0; at < queues_.size(); ++at) {
    if (!failure) failure = given_up(at);
    if (queues_[at].empty() && !rules_.absent[at]) absent.insert(static_cast<int>(at));
  }
  if (!failure) return false;
  answer_all(failure);
  tombstones_.add(*failure, std::move(absent));
  return true;
}

std::optional<Failure> SettingsQueue::disagreement() const {
  std::vector<int> ranks;
  const Setting& first = queues_[0].front().setting;
  for (std::size_t worker = 1; worker < queues_.size(); ++worker) {
    if (!agree(queues_[worker].front().setting, first)) ranks.push_back(static_cast<int>(worker));
  }
  if (ranks.empty()) return std::nullopt;
  const int worker = ranks.front();
  const Setting& other = queues_[static_cast<std::size_t>(worker)].front().setting;
  return mismatch_of({first, 0, other, worker}, "nothing has changed", std::move(ranks));
}

/// Applies the first settings of all workers if all have made one. Returns true if something has
/// moved.
bool SettingsQueue::advance_together() {
  if (std::ranges::any_of(queues_, &Queue::empty) || is_held() || has_held_rounds_()) return false;
  const auto differing = disagreement();
  answer_all(differing ? differing : apply_(queues_[0].front().setting));
  return true;
}

bool SettingsQueue::fail_for_absent() {
  if (std::ranges::all_of(queues_, &Queue::empty)) return false;
  for (std::size_t worker = 0; worker < queues_.size(); ++worker) {
    if (!queues_[worker].empty() || !rules_.absent[worker]) continue;
    answer_all(rules_.absent[worker]);
    return true;
  }
  return false;
}

void SettingsQueue::advance_in_turn() {
  if (const auto first = leader()) lead(*first);
  for (std::size_t worker = 0; worker < queues_.size(); ++worker) follow(worker);
  forget_applied();
}

/// Answers those of the worker's settings that were given up. Returns whether the first of the
/// others waits only for its turn.
bool SettingsQueue::may_answer(std::size_t worker) {
  while (const auto failure = given_up(worker)) refuse(worker, failure);
  return !queues_[worker].empty() && !queues_[worker].front().is_held;
}

void SettingsQueue::lead(std::size_t worker) {
  follow(worker);
  while (may_answer(worker)) {
    const Setting& setting = queues_[worker].front().setting;
    applied_.push_back({static_cast<int>(worker), setting, apply_of(worker, setting)});
    answer(worker, applied_.back().failure);
  }
}

/// The states that are to be loaded come from worker 0.
std::optional<Failure> SettingsQueue::apply_of(std::size_t worker, const Setting& setting) {
  if (worker != 0 && std::holds_alternative<LoadStates>(setting)) return rules_.absent[0];
  return apply_(setting);
}

void SettingsQueue::follow(std::size_t worker) {
  while (may_answer(worker) && answered_[worker] < forgotten_ + applied_.size()) {
    if (answered_[worker] < forgotten_) {
      answer(worker, std::nullopt);
      continue;
    }
    const Applied& first = applied_[answered_[worker] - forgotten_];
    const Setting& mine = queues_[worker].front().setting;
    if (agree(mine, first.setting)) {
      answer(worker, first.failure);
    } else {
      const int me = static_cast<int>(worker);
      answer(worker, mismatch_of({first.setting, first.worker, mine, me},
                                 fmt::format("worker {}'s holds", first.worker), {me}));
    }
  }
}

/// Forgets the settings that all remaining workers have made, because no worker asks for them
/// again. If there are too many, also forgets the oldest ones.
void SettingsQueue::forget_applied() {
  const auto is_needed = [&] {
    for (std::size_t worker = 0; worker < queues_.size(); ++worker) {
      if (!rules_.absent[worker] && answered_[worker] <= forgotten_) return true;
    }
    return false;
  };
  while (!applied_.empty() && (applied_.size() > most_applied || !is_needed())) {
    applied_.pop_front();
    ++forgotten_;
  }
}

}  // namespace tutti::ps
