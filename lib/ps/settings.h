#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "ps/archive.h"
#include "ps/rules.h"

namespace tutti::ps {

/// Settings on their way into a server. In a synchronous store every worker makes them, in the same
/// order, and each is applied when the last worker's has come. In an asynchronous one the lowest
/// worker that is there leads: its n-th is applied at once, where none was applied as the n-th
/// before, and another worker's n-th is answered as that one was, if it is one of the last 1024.
/// Either way a worker that says something else is told.
class Settings {
 public:
  /// What does not keep a setting from being applied returns nothing.
  using Apply = std::function<std::optional<Failure>(const Setting&)>;

  /// The rules outlive this.
  Settings(const Rules& rules, Apply apply);

  void add(int worker, const Setting& setting) {
    queues_[static_cast<std::size_t>(worker)].push_back(setting);
  }
  /// Others wait, and this worker has made none that is not answered.
  bool waits_for(int worker) const;
  /// Who has yet to make what this worker waits for; none: nobody.
  std::optional<Failure> missing_for(int worker) const;
  /// Applies what can be applied, and answers. Call it after `add` and when a worker has become
  /// absent.
  void advance();

  void save(ArchiveWriter& to) const;
  void load(ArchiveReader& from);

 private:
  /// One of a leader's that others have yet to make.
  struct Applied {
    int worker = 0;
    Setting setting;
    std::optional<Failure> failure;
  };

  std::optional<std::size_t> leader() const;
  bool advance_together();
  void advance_in_turn();
  void lead(std::size_t worker);
  void follow(std::size_t worker);
  std::optional<Failure> apply_of(std::size_t worker, const Setting& setting);
  void forget_applied();
  std::optional<Failure> disagreement() const;
  void answer(std::size_t worker, const std::optional<Failure>& failure);
  void answer_all(const std::optional<Failure>& failure);

  const Rules& rules_;
  const Apply apply_;
  std::vector<std::deque<Setting>> queues_;  ///< by worker: not answered yet
  // Of an asynchronous store:
  std::vector<std::size_t> answered_;  ///< by worker: how many
  std::deque<Applied> applied_;
  std::size_t forgotten_ = 0;  ///< how many were applied before those in `applied_`
};

}  // namespace tutti::ps
