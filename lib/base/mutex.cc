#include "base/mutex.h"

#include <bit>
#include <cstdio>
#include <cstdlib>

namespace tutti::base {
namespace {

/// One bit for the level of each mutex that this thread holds.
thread_local unsigned held = 0;

[[noreturn]] void report_order(int held_level, int level) {
  std::fprintf(
      stderr,
      "tutti: a thread that holds a mutex of level %d takes one of level %d; \"Lock order\" "
      "in lib/DESIGN.md allows higher levels alone\n",
      held_level, level);
  std::abort();
}

}  // namespace

void LockOrder::enter(int level) {
  const int highest = static_cast<int>(std::bit_width(held)) - 1;
  if (highest >= level) report_order(highest, level);
  held |= 1U << level;
}

void LockOrder::leave(int level) {
  held &= ~(1U << level);
}

}  // namespace tutti::base
