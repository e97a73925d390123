#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace tutti::base {

/// Objects that are used again and again for the sake of the memory they have grown. There are as
/// many as were in use at once. Thread-safe.
template <typename T>
class Spares {
 public:
  /// One that was given back, or a new one.
  std::unique_ptr<T> take() TUTTI_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    if (spares_.empty()) {
      // Here, for giving back must not fail.
      spares_.reserve(++made_);
      return std::make_unique<T>();
    }
    std::unique_ptr<T> spare = std::move(spares_.back());
    spares_.pop_back();
    return spare;
  }
  /// What `take` gave, each once.
  void give_back(std::unique_ptr<T> object) noexcept TUTTI_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    spares_.push_back(std::move(object));
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<T>> spares_ TUTTI_GUARDED_BY(mutex_);
  std::size_t made_ TUTTI_GUARDED_BY(mutex_) = 0;
};

/// Holds one of `spares` for a scope.
template <typename T>
class Borrowed {
 public:
  explicit Borrowed(Spares<T>& spares) : spares_(spares), object_(spares.take()) {}
  ~Borrowed() { spares_.give_back(std::move(object_)); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  T& operator*() const { return *object_; }
  T* operator->() const { return object_.get(); }

 private:
  Spares<T>& spares_;
  std::unique_ptr<T> object_;
};

}  // namespace tutti::base
