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

/// A stretch of the plan that may be repeated. No tensor is partly planned where it begins or ends.
struct Cycle {
  BatchNumber first = 0;  ///< its first batch, in the epoch that recorded it
  std::vector<RecordedBatch> batches;
  std::uint64_t uses = 0;  ///< tensors in it

  /// Call this once, with the batch `from` at which the replay begins. Moves urgent batches
  /// forward. When such a batch was planned, it was reported too late to come before less urgent
  /// batches that no rank had entered; a replay knows it in advance. Batches before `from` keep
  /// their places.
  void bring_forward(std::size_t from);
};

/// Finds repetition in an epoch's plan. A cycle is a guess at the next tensors. A wrong guess does
/// no harm, because any sequence of whole tensors may be replayed.
class CycleFinder {
 public:
  /// The most tensors, or parts of tensors, that are remembered.
  static constexpr std::size_t most_parts = std::size_t{1} << 16;
  /// A longer cycle may go unnoticed, because the memory may not hold two repetitions of it.
  static constexpr std::size_t longest_cycle = most_parts / 3;

  /// Adds the next batch. `completes` lists the ids of the tensors that the batch completes.
  /// `leaves_none_open` says that no tensor is partly planned after it.
  void add(const RecordedBatch& batch, const std::vector<KeyId>& completes, bool leaves_none_open);
  /// Returns the cycle that ends with the last batch. There is one if the sequence of the same
  /// length before it used the same keys equally often, and if both have at least as many uses as
  /// earlier replays demand.
  std::optional<Cycle> find() const;
  /// Forgets the plan: a new epoch has begun, ids have changed their meaning, or joined ranks
  /// contribute again.
  void restart(BatchNumber next);
  /// Notes that a replay of a cycle of `length` uses has ended after `uses`. If these are fewer
  /// than were needed to find the cycle, the next cycle needs twice as many, up to the number that
  /// can be remembered. So a program without a repeating order stays in negotiation.
  void note_replay_ended(std::uint64_t length, std::uint64_t uses);

  void fingerprint(Fingerprint& to) const;

 private:
  struct Use {
    /// The sum of the hashes of all keys before this position. It is equal for lists with the same
    /// keys.
    std::uint64_t sum = 0;
    std::size_t batches = 0;  ///< recorded up to here
    std::size_t parts = 0;    ///< the number of parts in these batches
    bool cut = false;         ///< nothing is partly planned here
    std::size_t period = 0;   ///< uses since this key's last; 0: none
  };
  /// The sums before this use.
  Use before(std::size_t use) const { return use == 0 ? Use() : uses_[use - 1]; }
  bool repeats(std::size_t period) const;
  /// For the fingerprint: how many places before this place the first batch stands that this one
  /// might pass. Only this much of `waiting` can decide anything.
  std::size_t passable(std::size_t place) const;

  BatchNumber first_ = 0;  ///< number of the first recorded batch
  std::vector<RecordedBatch> batches_;
  std::size_t parts_ = 0;  ///< the number of parts in batches_
  std::vector<Use> uses_;
  std::map<KeyId, std::size_t> last_use_;
  std::uint64_t demanded_ = 0;  ///< uses that must have repeated
};

}  // namespace tutti::coordinator
