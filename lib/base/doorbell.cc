#include "base/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tutti::base {
namespace {

// The futex is not private, because processes may share the word.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* limit, std::uint32_t listeners) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, limit,
                   nullptr, listeners);
}

void wake(Doorbell& bell, std::uint32_t listeners) {
  if (listeners != 0) futex(bell.rings, FUTEX_WAKE_BITSET, INT_MAX, nullptr, listeners);
}

}  // namespace

void Doorbell::ring() {
  news.fetch_add(1, std::memory_order_seq_cst);
  rings.fetch_add(1, std::memory_order_seq_cst);
  wake(*this, on_duty.load(std::memory_order_seq_cst));
}

void Doorbell::ring_for_data() {
  rings.fetch_add(1, std::memory_order_seq_cst);
  wake(*this, on_duty.load(std::memory_order_seq_cst) & ~std::uint32_t{idle_owner});
}

bool Doorbell::wait(std::uint32_t seen, Clock::time_point deadline, Listener who) {
  set_on_duty(who);
  const bool rung = doze(seen, deadline, who);
  set_off_duty(who);
  return rung;
}

bool Doorbell::doze(std::uint32_t seen, Clock::time_point deadline, Listener who) {
  // steady_clock is CLOCK_MONOTONIC, which FUTEX_WAIT_BITSET takes as an absolute time.
  const auto since_boot =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  const timespec limit{since_boot / 1'000'000'000, since_boot % 1'000'000'000};
  bool rung = rings.load(std::memory_order_seq_cst) != seen;
  while (!rung && Clock::now() < deadline) {
    futex(rings, FUTEX_WAIT_BITSET, seen, &limit, all_of(who));
    rung = rings.load(std::memory_order_seq_cst) != seen;
  }
  return rung;
}

}  // namespace tutti::base
