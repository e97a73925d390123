#include "coordinator/plan_log.h"

#include <algorithm>

#include "coordinator/fingerprint_of.h"

namespace tutti::coordinator {

void PlanLog::add(const PlanBatch& batch, std::uint64_t bytes) {
  batches_.push_back({batch, bytes});
  bytes_ahead_ += bytes;
}

void PlanLog::note_entered(int rank, BatchNumber count) {
  BatchNumber& mine = entered_[static_cast<std::size_t>(rank)];
  if (count <= mine) return;
  const bool was_last = mine == entered_by_all_;
  mine = count;
  if (!was_last) return;
  entered_by_all_ = *std::min_element(entered_.begin(), entered_.end());
  while (first_ < entered_by_all_ && !batches_.empty()) {
    bytes_ahead_ -= batches_.front().bytes;
    batches_.pop_front();
    ++first_;
  }
}

BatchNumber PlanLog::entered_by_any() const {
  return *std::max_element(entered_.begin(), entered_.end());
}

std::vector<int> PlanLog::behind() const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < entered_.size(); ++r) {
    if (entered_[r] == entered_by_all_) ranks.push_back(static_cast<int>(r));
  }
  if (ranks.size() == entered_.size()) ranks.clear();
  return ranks;
}

std::vector<PlanPart> PlanLog::not_entered_by_all() const {
  std::vector<PlanPart> parts;
  for (auto entry = batches_.rbegin(); entry != batches_.rend(); ++entry) {
    parts.insert(parts.end(), entry->batch.parts.begin(), entry->batch.parts.end());
  }
  return parts;
}

void PlanLog::restart() {
  std::fill(entered_.begin(), entered_.end(), BatchNumber{0});
  batches_.clear();
  entered_by_all_ = first_ = 0;
  bytes_ahead_ = 0;
}

void PlanLog::fingerprint(Fingerprint& to) const {
  for (const BatchNumber count : entered_) to.add(count);
  to.add(first_).add(batches_.size());
  for (const Entry& entry : batches_) add_to(to, entry.batch);
}

}  // namespace tutti::coordinator
