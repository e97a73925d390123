#pragma once
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace tutti::base {

/// A pool of objects that are used again, because they keep the memory that they have allocated. It
/// holds as many objects as were ever in use at the same time. Thread-safe.
template <typename T>
class Spares {
 public:
  /// Returns a free object of the pool, or a new one.
  std::unique_ptr<T> take() TUTTI_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    if (spares_.empty()) {
      // The room is reserved here, so that `give_back` cannot fail.
      spares_.reserve(++made_);
      return std::make_unique<T>();
    }
    std::unique_ptr<T> spare = std::move(spares_.back());
    spares_.pop_back();
    return spare;
  }
  /// Returns an object to the pool that came from `take`.
  void give_back(std::unique_ptr<T> object) noexcept TUTTI_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    spares_.push_back(std::move(object));
  }
  /// Takes all unused objects out of the pool.
  std::vector<std::unique_ptr<T>> take_all() TUTTI_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    std::vector<std::unique_ptr<T>> all(std::make_move_iterator(spares_.begin()),
                                        std::make_move_iterator(spares_.end()));
    spares_.clear();
    made_ -= all.size();
    return all;
  }

 private:
  Mutex mutex_{5};
  std::vector<std::unique_ptr<T>> spares_ TUTTI_GUARDED_BY(mutex_);
  std::size_t made_ TUTTI_GUARDED_BY(mutex_) = 0;
};

/// Takes an object from the pool for a scope.
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
