#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace tutti::base {

/// A named thread that is joined by its destructor. Whoever owns it must first make its function
/// return. Signals are blocked in it, for they belong to the program's own threads; only a fault of
/// its own goes to the program's handler.
class NamedThread {
 public:
  NamedThread() = default;
  /// `name` is at most 15 characters, as Linux shows it.
  NamedThread(const std::string& name, std::function<void()> run);
  ~NamedThread() { join(); }
  NamedThread(NamedThread&&) = default;
  NamedThread& operator=(NamedThread&& other) noexcept {
    join();
    thread_ = std::move(other.thread_);
    return *this;
  }

  bool joinable() const { return thread_.joinable(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  /// In a forked child, where the thread does not exist: forgets it without joining.
  void abandon() {
    // Its identity may be that of a thread of the child's by now, which detaching would hit. A
    // std::thread owns nothing else, so a new one in its place loses nothing.
    std::construct_at(&thread_);
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  std::thread thread_;
};

/// From now on the calling thread's timed sleeps end when they are due: as Linux has it, they may
/// last 50 us longer, so that wake-ups fall together.
void sleep_precisely();

/// The processors that this process may run on (its affinity mask), by the kernel's numbers.
std::set<int> usable_cpus();

}  // namespace tutti::base
