#include "control/loss_slot.h"

#include <algorithm>

namespace tutti::control {

bool LossSlot::report(int rank, std::string_view reason) noexcept {
  State expected = State::free;
  if (!state_.compare_exchange_strong(expected, State::being_written)) return false;
  rank_ = rank;
  length_ = static_cast<std::uint32_t>(std::min(reason.size(), reason_.size()));
  std::copy_n(reason.begin(), length_, reason_.begin());
  state_.store(State::written, std::memory_order_seq_cst);
  return true;
}

std::optional<FailedRank> LossSlot::get() const {
  if (!has_loss()) return std::nullopt;
  // The length comes from shared memory, so do not trust it beyond the array.
  const auto length = std::min<std::size_t>(length_, reason_.size());
  return FailedRank{rank_, std::string(reason_.data(), length)};
}

}  // namespace tutti::control
