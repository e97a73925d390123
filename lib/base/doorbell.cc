#include "base/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tutti::base {
namespace {

// Not the PRIVATE kind: the word may be shared between processes.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* limit) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, limit,
                   nullptr, FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

void Doorbell::ring() {
  rings.fetch_add(1, std::memory_order_seq_cst);
  if (asleep.load(std::memory_order_seq_cst) != 0) futex(rings, FUTEX_WAKE, INT_MAX, nullptr);
}

bool Doorbell::wait(std::uint32_t seen, Clock::time_point deadline) {
  // steady_clock is CLOCK_MONOTONIC, which FUTEX_WAIT_BITSET takes as an absolute time.
  const auto since_boot =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  const timespec limit{since_boot / 1'000'000'000, since_boot % 1'000'000'000};
  asleep.store(1, std::memory_order_seq_cst);
  bool rung = rings.load(std::memory_order_seq_cst) != seen;
  while (!rung && Clock::now() < deadline) {
    futex(rings, FUTEX_WAIT_BITSET, seen, &limit);
    rung = rings.load(std::memory_order_seq_cst) != seen;
  }
  asleep.store(0, std::memory_order_relaxed);
  return rung;
}

}  // namespace tutti::base
