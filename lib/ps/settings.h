#pragma once
#include <deque>
#include <functional>
#include <vector>

#include "ps/rules.h"

namespace tutti::ps {

/// Settings on their way into a server's rules. In a synchronous store every worker makes them, in
/// the same order, and each is applied when the last worker's has come. In an asynchronous one
/// worker 0's are applied at once, and another worker's n-th is answered as worker 0's n-th was.
class Settings {
 public:
  /// `changed` is called when the rules have another optimizer. The rules outlive this.
  Settings(Rules& rules, std::function<void()> changed);

  void add(int worker, const SetOptimizer& set) {
    queues_[static_cast<std::size_t>(worker)].push_back(set);
  }
  /// Applies what can be applied, and answers. Call it after `add` and when a worker has become
  /// absent.
  void advance();

 private:
  bool advance_together();
  void advance_with_first();
  std::optional<Failure> apply(const Optimizer& optimizer);
  std::optional<Failure> disagreement() const;
  void answer(std::size_t worker, const std::optional<Failure>& failure);
  void answer_all(const std::optional<Failure>& failure);

  Rules& rules_;
  const std::function<void()> changed_;
  std::vector<std::deque<SetOptimizer>> queues_;  ///< by worker: not answered yet
  std::vector<std::size_t> answered_;             ///< by worker, asynchronous only
  std::vector<std::optional<Failure>> of_first_;  ///< how worker 0's were answered
};

}  // namespace tutti::ps
