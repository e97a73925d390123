#pragma once
#include <functional>

#include "control/board.h"

namespace tutti::control {

/// Runs the `body` of a control thread; what it throws becomes a loss of this very rank, reported
/// on `board`, instead of the end of the process.
void contain(LossBoard& board, int rank, const char* thread,
             const std::function<void()>& body) noexcept;

}  // namespace tutti::control
