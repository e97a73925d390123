#pragma once
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/completion.h"
#include "base/mutex.h"
#include "runtime/call_list.h"
#include "runtime/key_index.h"
#include "runtime/peer_side.h"
#include "tutti/key.h"

namespace tutti::runtime {

struct JoinCall {
  std::shared_ptr<base::Completion> completion;
  std::shared_ptr<int> last;  ///< written before the completion is done
};
struct DepartCall {
  std::shared_ptr<base::Completion> completion;
};

using Submission =
    std::variant<std::shared_ptr<CallList>, std::shared_ptr<PeerCall>, JoinCall, DepartCall>;

/// The queue from user threads to the thread that moves the executor. Thread-safe.
class Inbox {
 public:
  /// The rank appears in messages.
  explicit Inbox(int rank) : rank_(rank) {}

  /// Submits all calls or none. Throws `duplicate_key` if a key is in flight or occurs twice in
  /// `list`, and the store's own error once the store has ended. If a call of a key is just ending
  /// (see `note_ending`), this blocks until it has ended, except in a callback.
  void submit(std::shared_ptr<CallList> list) TUTTI_EXCLUDES(mutex_);
  void submit(Submission call) TUTTI_EXCLUDES(mutex_);

  /// The thread that moves the executor calls this. It takes all calls submitted since the last
  /// time. `into` must be empty; its memory is used again.
  void take(std::vector<Submission>& into) TUTTI_EXCLUDES(mutex_);
  /// Lets the program use the calls' keys again. Called before the Pendings of these calls are
  /// done.
  void release(std::span<const TensorCall* const> calls) TUTTI_EXCLUDES(mutex_);
  /// Notes that the last copies of these calls to outputs on a GPU have been issued. If a stream
  /// waits for the calls instead of a thread, the program may not know when they are over.
  void note_ending(std::span<const TensorCall* const> calls) TUTTI_EXCLUDES(mutex_);
  /// The keys in flight, sorted. Any thread may call it.
  std::vector<Key> in_flight() const TUTTI_EXCLUDES(mutex_);
  /// Throws the store's own error once the store has ended.
  void check_alive() TUTTI_EXCLUDES(mutex_);

  /// Notes that the store has ended: from now on every submission throws `error`. Returns the
  /// submissions that nobody has taken.
  std::vector<Submission> die(std::exception_ptr error) TUTTI_EXCLUDES(mutex_);
  /// The number of keys that the program has used.
  std::size_t keys() const TUTTI_EXCLUDES(mutex_);
  /// Drops all keys. Call it after `die`, when no thread moves the executor any more.
  void forget_keys() TUTTI_EXCLUDES(mutex_);
  /// Notes that the error has ended calls of the program.
  void note_told() TUTTI_EXCLUDES(mutex_);
  /// Whether the program knows of the error: the error has ended calls, or a submission has thrown
  /// it.
  bool has_told() const TUTTI_EXCLUDES(mutex_);

 private:
  void throw_if_dead() TUTTI_REQUIRES(mutex_);
  void admit(TensorCall& call, std::string_view verb) TUTTI_REQUIRES(mutex_);
  void wait_for_ends(base::Lock& lock, std::span<const TensorCall> calls) TUTTI_REQUIRES(mutex_);

  const int rank_;
  mutable base::Mutex mutex_{5};
  std::vector<Submission> waiting_ TUTTI_GUARDED_BY(mutex_);
  /// All keys that the program has used. It uses keys again and again, so none is removed before
  /// the end.
  KeyIndex keys_ TUTTI_GUARDED_BY(mutex_);
  /// By the key's number: the verb of the call in flight, a literal. Nothing if none is.
  std::vector<std::optional<std::string_view>> in_flight_ TUTTI_GUARDED_BY(mutex_);
  std::set<std::uint32_t> ending_ TUTTI_GUARDED_BY(mutex_);  ///< keys' numbers
  base::CondVar ended_;
  std::exception_ptr dead_ TUTTI_GUARDED_BY(mutex_);
  bool told_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::runtime
