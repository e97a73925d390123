#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace tutti::base {

/// A named thread. The destructor joins it, and the owner must make the function return before.
/// Signals are blocked in it, because they belong to the program's own threads. Only signals of its
/// own faults, such as SIGSEGV, reach the program's handlers.
class NamedThread {
 public:
  NamedThread() = default;
  /// `name` has at most 15 characters, the limit of Linux.
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
  /// A forked child calls this, because the thread does not exist there. It forgets the thread
  /// without joining.
  void abandon() {
    // Detaching is not safe: the child may have a new thread with the same pthread_t. A std::thread
    // owns nothing else, so overwriting it leaks nothing.
    std::construct_at(&thread_);
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  std::thread thread_;
};

/// From now on timed sleeps of the calling thread end on time. By default Linux may end them 50 us
/// late, in order to wake several threads at the same time.
void sleep_precisely();

/// The processors on which this process may run (its affinity mask), in the kernel's numbers.
std::set<int> usable_cpus();

}  // namespace tutti::base
