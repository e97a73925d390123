#pragma once
#include <cstddef>

#include "base/mutex.h"
#include "kvstore/backend.h"

namespace tutti {

/// The counters of a store of one process. The store's mutex does not guard them, because a call
/// may hold that mutex while it waits for a GPU. Thread-safe.
class LocalCounters {
 public:
  void add(Method method, std::size_t bytes) TUTTI_EXCLUDES(mutex_) {
    const base::Lock lock(mutex_);
    if (method == Method::broadcast) {
      ++counters_.tensors_broadcast;
      counters_.bytes_broadcast += bytes;
    } else if (method == Method::allgather || method == Method::all_to_all) {
      ++counters_.tensors_gathered;
      counters_.bytes_gathered += bytes;
    } else {
      ++counters_.tensors_reduced;
      counters_.bytes_reduced += bytes;
    }
  }
  void add_batch() TUTTI_EXCLUDES(mutex_) {
    const base::Lock lock(mutex_);
    ++counters_.batches;
  }
  Counters read() const TUTTI_EXCLUDES(mutex_) {
    const base::Lock lock(mutex_);
    return counters_;
  }

 private:
  mutable base::Mutex mutex_{5};
  Counters counters_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
