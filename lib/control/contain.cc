#include "control/contain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>

namespace tutti::control {

void contain(LossBoard& board, int rank, const char* thread,
             const std::function<void()>& body) noexcept {
  try {
    body();
  } catch (const std::exception& failure) {
    // A fixed buffer, because the failure may be a lack of memory.
    std::array<char, 400> text{};
    const auto end = fmt::format_to_n(text.data(), text.size(), "its thread {} failed: {}", thread,
                                      failure.what());
    board.report(rank, {text.data(), std::min(end.size, text.size())});
  } catch (...) {
    board.report(rank, "one of its control threads failed");
  }
}

}  // namespace tutti::control
