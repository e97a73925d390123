#pragma once
#include <functional>

#include "control/loss_board.h"

namespace tutti::control {

/// Runs the `body` of a control thread. If it throws, this rank is reported as lost on `board`, and
/// the process goes on.
void contain(LossBoard& board, int rank, const char* thread,
             const std::function<void()>& body) noexcept;

}  // namespace tutti::control
