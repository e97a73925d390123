#include "control/loss_board.h"

namespace tutti::control {

void LossBoard::report(int rank, std::string_view reason) noexcept {
  if (own_.report(rank, reason)) tell();
  segment_.loss().report(rank, reason);
  for (int i = 0; i < segment_.local_size(); ++i) segment_.slot(i).bell.ring();
  collector_.ring();
}

void LossBoard::tell() const noexcept {
  if (!on_loss_) return;
  try {
    on_loss_(*own_.get());
  } catch (...) {
    // There is no memory, so this process does not hear of the loss. The other ranks still do.
    return;
  }
}

std::optional<FailedRank> LossBoard::get() const {
  // The loss is copied into `own_` before it is returned, so that the answer never changes.
  if (!own_.has_loss()) {
    if (const auto nodes = segment_.loss().get()) own_.report(nodes->rank, nodes->reason);
  }
  return own_.get();
}

}  // namespace tutti::control
