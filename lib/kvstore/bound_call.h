#pragma once
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "kvstore/front_desk.h"
#include "tutti/kvstore.h"

namespace tutti {

/// The arguments behind a `Bound`, and the outcome of its last call. Thread-safe.
class BoundCall {
 public:
  /// Throws what `FrontDesk::check_for_later` throws.
  BoundCall(std::shared_ptr<FrontDesk> front_desk, const std::shared_ptr<Backend>& backend,
            std::vector<Key> keys, std::vector<Values> ins, std::vector<Values> outs,
            CallOptions options);

  /// Submits the call. `waits` is that of MethodCall.
  Pending submit(bool waits) TUTTI_EXCLUDES(mutex_);
  /// The outcome of the last call. Before the first, that of a call that is done.
  Pending last() const TUTTI_EXCLUDES(mutex_);

 private:
  MethodCall call(bool waits) const;

  const std::shared_ptr<FrontDesk> front_desk_;
  const std::weak_ptr<Backend> backend_;  ///< the store owns it
  const std::vector<Key> keys_;
  const std::vector<Values> ins_;
  const std::vector<Values> outs_;
  const CallOptions options_;
  const bool copies_inputs_;
  mutable base::Mutex mutex_{5};
  Pending last_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
