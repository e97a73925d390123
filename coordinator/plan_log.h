#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "coordinator/fingerprint.h"
#include "coordinator/messages.h"

namespace tutti::coordinator {

/// The batches of this epoch that some rank may not have entered yet, and how far each rank has
/// come.
class PlanLog {
 public:
  explicit PlanLog(int size) : entered_(static_cast<std::size_t>(size)) {}

  void add(const PlanBatch& batch, std::uint64_t bytes);
  BatchNumber next_number() const { return first_ + batches_.size(); }
  /// Notes that a rank has entered `count` gates of this epoch.
  void note_entered(int rank, BatchNumber count);
  /// The number of gates that every rank is known to have entered.
  BatchNumber entered_by_all() const { return entered_by_all_; }
  /// The number of gates that some rank is known to have entered.
  BatchNumber entered_by_any() const;
  /// The bytes that are planned beyond the batches that all ranks have entered.
  std::uint64_t bytes_ahead() const { return bytes_ahead_; }
  /// The ranks that have entered the fewest gates. Empty if all have entered equally many, because
  /// then it is not known here which rank is late.
  std::vector<int> behind() const;
  /// The parts of the batches that not all ranks have entered, the last batch first.
  std::vector<PlanPart> not_entered_by_all() const;
  /// Begins a new epoch: nothing is planned, and no gate is entered.
  void restart();

  void fingerprint(Fingerprint& to) const;

 private:
  struct Entry {
    PlanBatch batch;
    std::uint64_t bytes = 0;
  };
  std::vector<BatchNumber> entered_;  ///< by rank
  BatchNumber entered_by_all_ = 0;
  BatchNumber first_ = 0;  ///< number of batches_.front()
  std::deque<Entry> batches_;
  std::uint64_t bytes_ahead_ = 0;
};

}  // namespace tutti::coordinator
