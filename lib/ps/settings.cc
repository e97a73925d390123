#include "ps/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "optimizer/catalogue.h"

namespace tutti::ps {

Settings::Settings(Rules& rules, std::function<void()> changed)
    : rules_(rules),
      changed_(std::move(changed)),
      queues_(static_cast<std::size_t>(rules.workers)),
      answered_(queues_.size()) {}

void Settings::advance() {
  if (rules_.asynchronous) return advance_with_first();
  while (advance_together()) {
  }
}

std::optional<Failure> Settings::apply(const Optimizer& optimizer) {
  try {
    static_cast<void>(optimizer::choose(optimizer));
  } catch (const Error& error) {
    return Failure{error.code(), error.what(), {}};
  }
  rules_.optimizer = optimizer;
  changed_();
  return std::nullopt;
}

void Settings::answer(std::size_t worker, const std::optional<Failure>& failure) {
  const std::uint64_t sequence = queues_[worker].front().sequence;
  queues_[worker].pop_front();
  rules_.send(static_cast<int>(worker), {sequence, failure, {}});
}

void Settings::answer_all(const std::optional<Failure>& failure) {
  for (std::size_t worker = 0; worker < queues_.size(); ++worker) {
    if (!queues_[worker].empty()) answer(worker, failure);
  }
}

std::optional<Failure> Settings::disagreement() const {
  std::vector<int> ranks;
  const Optimizer& first = queues_[0].front().optimizer;
  for (std::size_t worker = 1; worker < queues_.size(); ++worker) {
    if (queues_[worker].front().optimizer != first) ranks.push_back(static_cast<int>(worker));
  }
  if (ranks.empty()) return std::nullopt;
  const Optimizer& other = queues_[static_cast<std::size_t>(ranks[0])].front().optimizer;
  std::string what = "other parameters or factors";
  if (other.name != first.name)
    what = fmt::format("'{}', and worker 0 '{}'", other.name, first.name);
  return Failure{ErrorCode::mismatch,
                 fmt::format("set_optimizer: worker {} gave {}; nothing has changed, and all give "
                             "the same",
                             ranks[0], what),
                 std::move(ranks)};
}

/// True: something has moved.
bool Settings::advance_together() {
  const auto is_empty = [](const auto& queue) { return queue.empty(); };
  if (std::ranges::all_of(queues_, is_empty)) return false;
  if (std::ranges::none_of(queues_, is_empty)) {
    const auto differing = disagreement();
    const Optimizer chosen = queues_[0].front().optimizer;
    answer_all(differing ? differing : apply(chosen));
    return true;
  }
  for (std::size_t worker = 0; worker < queues_.size(); ++worker) {
    if (!queues_[worker].empty() || !rules_.absent[worker]) continue;
    answer_all(rules_.absent[worker]);
    return true;
  }
  return false;
}

void Settings::advance_with_first() {
  while (!queues_[0].empty()) {
    of_first_.push_back(apply(queues_[0].front().optimizer));
    answer(0, of_first_.back());
  }
  for (std::size_t worker = 1; worker < queues_.size(); ++worker) {
    while (!queues_[worker].empty()) {
      const std::size_t at = answered_[worker];
      if (at >= of_first_.size() && !rules_.absent[0]) break;
      ++answered_[worker];
      answer(worker, at < of_first_.size() ? of_first_[at] : rules_.absent[0]);
    }
  }
}

}  // namespace tutti::ps
