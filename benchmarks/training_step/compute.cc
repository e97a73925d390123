#include "benchmarks/training_step/compute.h"

#include <ctime>
#include <thread>

namespace tutti::bench {
namespace {

double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

void Compute::restart() {
  done_ = std::chrono::steady_clock::now();
  leave_out();
}

void Compute::leave_out() {
  if (busy_) used_ = thread_seconds();
}

void Compute::run(double seconds) {
  if (busy_) {
    while (thread_seconds() - used_ < seconds) {
    }
    used_ = thread_seconds();
    return;
  }
  // The time counts from the end of the last layer, and not from now. So one late wake-up does not
  // delay all later layers.
  done_ += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
  std::this_thread::sleep_until(done_);
}

}  // namespace tutti::bench
