#pragma once
#include <exception>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/completion.h"
#include "base/mutex.h"
#include "coordinator/key_hash.h"
#include "coordinator/types.h"
#include "tutti/key.h"
#include "tutti/tensor.h"

namespace tutti::runtime {

/// One key of a pushpull or broadcast.
struct TensorCall {
  Key key = 0;
  coordinator::Signature signature;
  int priority = 0;
  Values ins;  ///< one a device; for a broadcast the root's value, elsewhere none
  Values outs;
  std::shared_ptr<base::Completion> completion;
};

struct BarrierCall {
  std::shared_ptr<base::Completion> completion;
};
struct JoinCall {
  std::shared_ptr<base::Completion> completion;
  std::shared_ptr<int> last;  ///< written before the completion is done
};
struct DepartCall {
  std::shared_ptr<base::Completion> completion;
};

/// One call's tensors stay together, so that taking them over moves one pointer.
using Submission = std::variant<std::vector<TensorCall>, BarrierCall, JoinCall, DepartCall>;

/// What user threads hand to the communication thread. Thread-safe.
class Inbox {
 public:
  /// The rank is for messages.
  explicit Inbox(int rank) : rank_(rank) {}

  /// All or nothing. Throws `duplicate_key` when a key is in flight (or stands twice in `calls`),
  /// and the store's own error once it is dead.
  void submit(std::vector<TensorCall> calls) TUTTI_EXCLUDES(mutex_);
  void submit(Submission call) TUTTI_EXCLUDES(mutex_);

  /// Communication thread: everything submitted since the last time.
  std::vector<Submission> take() TUTTI_EXCLUDES(mutex_);
  /// The key may be used again; before its Pending is done.
  void release(const Key& key) TUTTI_EXCLUDES(mutex_);
  /// Any thread. In the order of keys.
  std::vector<Key> in_flight() const TUTTI_EXCLUDES(mutex_);
  /// Throws the store's own error once it is dead.
  void check_alive() const TUTTI_EXCLUDES(mutex_);

  /// Terminal: from now on every submission throws `error`. Returns what was not taken yet.
  std::vector<Submission> die(std::exception_ptr error) TUTTI_EXCLUDES(mutex_);

 private:
  void throw_if_dead() const TUTTI_REQUIRES(mutex_);
  void admit(const Key& key) TUTTI_REQUIRES(mutex_);

  const int rank_;
  mutable base::Mutex mutex_;
  std::vector<Submission> waiting_ TUTTI_GUARDED_BY(mutex_);
  /// Every key so far, and whether it is in flight: keys are used again and again.
  std::unordered_map<Key, bool, coordinator::KeyHash> in_flight_ TUTTI_GUARDED_BY(mutex_);
  std::exception_ptr dead_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti::runtime
