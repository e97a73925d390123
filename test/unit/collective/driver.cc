#include "driver.h"

#include <sched.h>

#include <stdexcept>
#include <thread>

using namespace std::chrono_literals;
using tutti::base::Clock;
using tutti::collective::Progress;

void Driver::pause(std::uint32_t ticket) {
  const auto now = Clock::now();
  if (!waiting_) {
    waiting_ = true;
    yields_ = 0;
    since_ = now;
  }
  if (now - since_ > 20s) throw std::runtime_error("nothing moves: " + engine_.describe());
  if (!crowded_ && now - since_ < 20us) return;
  if (yields_++ < 8) {
    ::sched_yield();
    return;
  }
  bell_.wait(ticket, now + (engine_.is_polling() ? Clock::duration(100us) : Clock::duration(1s)));
}

void Driver::run(std::span<const tutti::collective::Batch> batches) {
  std::size_t entered = 0;
  std::size_t closed = 0;
  std::size_t started = 0;
  std::size_t done = 0;
  while (done < batches.size()) {
    if (stumbling_ != nullptr && (*stumbling_)() % 64 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds((*stumbling_)() % 300));
    }
    const auto ticket = bell_.ticket();
    bool moved = false;
    if (closed < entered && engine_.poll_gate(batches[closed].epoch, batches[closed].number)) {
      ++closed;
      moved = true;
    }
    if (started < closed && engine_.may_start()) {
      if (started > done) ++started_early_;
      engine_.start();
      ++started;
      if (started - done == 3 && engine_.is_brief(batches[started - 2]) &&
          !engine_.is_brief(batches[started - 1])) {
        ++started_behind_small_;
      }
      moved = true;
    }
    if (entered < batches.size() && entered == closed && entered - done < tutti::shm::most_open) {
      engine_.enter(batches[entered++]);
      moved = true;
    }
    if (started > done) {
      const Progress progress = engine_.step();
      if (progress == Progress::done) ++done;
      moved |= progress != Progress::waiting;
    }
    if (moved) {
      waiting_ = false;
    } else {
      pause(ticket);
    }
  }
}
