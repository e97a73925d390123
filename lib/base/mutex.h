#pragma once
#include <condition_variable>
#include <mutex>

#include "base/clock.h"

// Annotations for clang's thread-safety analysis, which checks them at compile time. libstdc++'s
// std::mutex has none.
#ifdef __clang__
#define TUTTI_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define TUTTI_THREAD_ATTRIBUTE(x)
#endif
#define TUTTI_CAPABILITY(x) TUTTI_THREAD_ATTRIBUTE(capability(x))
#define TUTTI_SCOPED_CAPABILITY TUTTI_THREAD_ATTRIBUTE(scoped_lockable)
#define TUTTI_GUARDED_BY(x) TUTTI_THREAD_ATTRIBUTE(guarded_by(x))
#define TUTTI_REQUIRES(...) TUTTI_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TUTTI_EXCLUDES(...) TUTTI_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define TUTTI_ACQUIRE(...) TUTTI_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TUTTI_RELEASE(...) TUTTI_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TUTTI_TRY_ACQUIRE(...) TUTTI_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))

namespace tutti::base {

class CondVar;

/// Builds with assertions check the lock order.
#ifdef NDEBUG
constexpr bool checks_lock_order = false;
#else
constexpr bool checks_lock_order = true;
#endif

/// The levels of the mutexes that this thread holds. A thread that holds one takes only mutexes of
/// higher levels.
class LockOrder {
 public:
  /// If this breaks the order, says which two levels are involved and ends the process.
  static void enter(int level);
  static void leave(int level);
};

/// A std::mutex with annotations for clang's thread-safety analysis, and with its level, from 0 to
/// 31, in the lock order. The table "Lock order" in lib/DESIGN.md gives the levels their meaning.
class TUTTI_CAPABILITY("mutex") Mutex {
 public:
  explicit Mutex(int level) : level_(level) {}
  void lock() TUTTI_ACQUIRE() {
    if constexpr (checks_lock_order) LockOrder::enter(level_);
    mutex_.lock();
  }
  void unlock() TUTTI_RELEASE() {
    mutex_.unlock();
    if constexpr (checks_lock_order) LockOrder::leave(level_);
  }
  bool try_lock() TUTTI_TRY_ACQUIRE(true) {
    if (!mutex_.try_lock()) return false;
    if constexpr (checks_lock_order) LockOrder::enter(level_);
    return true;
  }

 private:
  friend class CondVar;
  std::mutex mutex_;
  const int level_;
};

/// Holds a Mutex for a scope.
class TUTTI_SCOPED_CAPABILITY Lock {
 public:
  explicit Lock(Mutex& mutex) TUTTI_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Lock() TUTTI_RELEASE() { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  void lock() TUTTI_ACQUIRE() { mutex_.lock(); }
  void unlock() TUTTI_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  Mutex& mutex_;
};

/// A condition variable that allocates nothing, unlike std::condition_variable_any. Wait in a loop
/// that tests the predicate, so that the analysis sees the guarded reads: `while (!ready_) if
/// (!cv_.wait_until(lock, deadline)) ...`.
class CondVar {
 public:
  void notify_all() { cv_.notify_all(); }
  /// Returns false if the deadline passed.
  bool wait_until(Lock& lock, Clock::time_point deadline) {
    std::unique_lock<std::mutex> held(lock.mutex_.mutex_, std::adopt_lock);
    const bool in_time = cv_.wait_until(held, deadline) == std::cv_status::no_timeout;
    // `lock` still owns the mutex.
    held.release();
    return in_time;
  }

 private:
  std::condition_variable cv_;
};

}  // namespace tutti::base
