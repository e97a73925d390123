#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "coordinator/fingerprint.h"
#include "coordinator/messages.h"

namespace tutti::coordinator {

/// A batch as it was planned.
struct RecordedBatch {
  PlanBatch batch;
  std::int32_t priority = 0;
  std::size_t waiting = 0;  ///< batches planned before it that no rank had entered then
};

/// A stretch of the plan that would serve again, from one point where no tensor is partly planned
/// to another.
struct Cycle {
  BatchNumber first = 0;  ///< its first batch, in the epoch that recorded it
  std::vector<RecordedBatch> batches;
  std::uint64_t uses = 0;  ///< tensors in it

  /// Once, with where the replay begins: lets what is urgent go before less urgent batches that
  /// waited when it was planned. It came too late for that; as a cycle it is known before. What
  /// comes before `from` stays there.
  void bring_forward(std::size_t from);
};

/// Watches an epoch's plan for repetition. What it finds is only a guess at what comes next: any
/// stretch of whole tensors is safe to replay.
class CycleFinder {
 public:
  /// What is remembered of the plan: tensors, or parts of them.
  static constexpr std::size_t most_parts = std::size_t{1} << 16;
  /// A cycle of more parts may go unnoticed: what repeats does not fit twice, wherever it begins.
  static constexpr std::size_t longest_cycle = most_parts / 3;

  /// The next batch, the ids of the tensors it completes, and whether it leaves no tensor partly
  /// planned.
  void add(const RecordedBatch& batch, const std::vector<KeyId>& completes, bool leaves_none_open);
  /// A cycle that ends with the last batch, when the one before used the same keys as often, and
  /// both explain as many uses as the past demands.
  std::optional<Cycle> find() const;
  /// What went before does not serve again: a new epoch, ids that changed their meaning, or ranks
  /// that had joined contribute again.
  void restart(BatchNumber next);
  /// A replay of a cycle of `length` uses served `uses`. When that is less than it took to earn,
  /// the next must show twice as much, up to what can be remembered, so that a program without a
  /// repeating order stays in negotiation.
  void note_replay_ended(std::uint64_t length, std::uint64_t uses);

  void fingerprint(Fingerprint& to) const;

 private:
  struct Use {
    std::uint64_t sum = 0;    ///< of all keys' hashes up to here: equal for equal multisets
    std::size_t batches = 0;  ///< recorded up to here
    std::size_t parts = 0;    ///< in these
    bool cut = false;         ///< nothing is partly planned here
    std::size_t period = 0;   ///< uses since this key's last; 0: none
  };
  /// Up to a use, without it.
  Use before(std::size_t use) const { return use == 0 ? Use() : uses_[use - 1]; }
  bool repeats(std::size_t period) const;
  /// What of `waiting` can matter, for the fingerprint: how far before it the first one stands that
  /// it might pass.
  std::size_t passable(std::size_t place) const;

  BatchNumber first_ = 0;  ///< number of the first recorded batch
  std::vector<RecordedBatch> batches_;
  std::size_t parts_ = 0;  ///< in batches_
  std::vector<Use> uses_;
  std::map<KeyId, std::size_t> last_use_;
  std::uint64_t demanded_ = 0;  ///< uses that must have repeated
};

}  // namespace tutti::coordinator
