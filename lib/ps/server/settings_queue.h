#pragma once
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "ps/durable/archive.h"
#include "ps/server/rules.h"
#include "ps/server/tombstones.h"

namespace tutti::ps {

/// Settings on their way into a server. In a synchronous store every worker makes them in the same
/// order. A setting is applied when the last worker has made it. It also waits for rounds that a
/// worker holds, because other servers may have executed these before it. If a worker gives a
/// setting up, the setting fails for all workers.
///
/// In an asynchronous store the lowest worker that is there leads. Its n-th setting is applied at
/// once, unless an n-th setting was applied before. Another worker's n-th setting gets the same
/// answer as that one, if it is one of the last 1024. If a worker gives a setting up, the setting
/// fails only for that worker, and the worker may make it again.
///
/// In both cases a worker that makes a different setting gets an error.
class SettingsQueue {
 public:
  /// Applies a setting. Returns a failure if it could not.
  using Apply = std::function<std::optional<Failure>(const Setting&)>;
  using HasHeldRounds = std::function<bool()>;

  /// The rules outlive this object.
  SettingsQueue(const Rules& rules, Apply apply, HasHeldRounds has_held_rounds);

  void add(int worker, const Setting& setting) {
    queues_[static_cast<std::size_t>(worker)].push_back({.setting = setting});
  }
  /// Holds, releases or gives up a setting. Does nothing if it is answered. Returns the workers
  /// that have not made it yet, or nothing if all have. Call `advance` after it.
  std::optional<Failure> recall(int worker, const Recall& said);
  /// Whether others wait and this worker has no unanswered setting.
  bool waits_for(int worker) const;
  /// The workers that have not made the setting for which this worker waits, or nothing if it waits
  /// for nobody.
  std::optional<Failure> missing_for(int worker) const;
  /// Applies the settings that can be applied, and answers. Call this after `add`, when a worker
  /// has become absent, and when a round is no longer held.
  void advance();

  void save(ArchiveWriter& to) const;
  void load(ArchiveReader& from);

 private:
  struct Queued {
    Setting setting;
    bool is_held = false;  ///< its worker may give it up
    std::optional<Failure> given_up{};
  };
  using Queue = std::deque<Queued>;
  /// A setting of a leader that others have not made yet.
  struct Applied {
    int worker = 0;
    Setting setting;
    std::optional<Failure> failure;
  };

  std::optional<std::size_t> leader() const;
  std::optional<Failure> missing_for(std::size_t worker,
                                     const Queue::const_iterator& request) const;
  std::optional<Failure> given_up(std::size_t worker) const;
  bool is_held() const;
  bool bury();
  bool fail_given_up();
  bool fail_for_absent();
  bool advance_together();
  void advance_in_turn();
  bool may_answer(std::size_t worker);
  void lead(std::size_t worker);
  void follow(std::size_t worker);
  std::optional<Failure> apply_of(std::size_t worker, const Setting& setting);
  void forget_applied();
  std::optional<Failure> disagreement() const;
  void answer(std::size_t worker, const std::optional<Failure>& failure);
  void refuse(std::size_t worker, const std::optional<Failure>& failure);
  void answer_all(const std::optional<Failure>& failure);

  const Rules& rules_;
  const Apply apply_;
  const HasHeldRounds has_held_rounds_;
  std::vector<Queue> queues_;  ///< by worker: settings that are not answered yet
  Tombstones tombstones_;      ///< only for a synchronous store
  // Only for an asynchronous store:
  std::vector<std::size_t> answered_;  ///< by worker: the number of its answered settings
  std::deque<Applied> applied_;
  std::size_t forgotten_ = 0;  ///< the number of those applied before `applied_`
};

}  // namespace tutti::ps
