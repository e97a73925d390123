#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "runtime/call_list.h"
#include "runtime/executor.h"
#include "runtime/inbox.h"
#include "runtime/loss_log.h"
#include "runtime/progress_lock.h"
#include "runtime/session_parts.h"
#include "tutti/counters.h"
#include "tutti/error.h"
#include "tutti/info.h"
#include "tutti/pending.h"

namespace tutti::runtime {

/// The running part of a `dist_sync_mpi` store. It owns the MPI communicators, node memory, control
/// plane and communication thread, and only it connects them.
///
/// Thread-safe, except that construction is collective and destruction ends everything.
class Session {
 public:
  /// Collective, blocking. Throws the errors that KVStore::create lists.
  Session(World world, const Options& options);
  /// A forked child does not destroy the session: after `end` the members that the threads used
  /// stay as they are until the child exits.
  ~Session() { end(); }
  /// Closes the store, and throws no error. In a callback or a deleter it ends the process, because
  /// it would wait for its own thread. In a forked child it only closes the child's copies of the
  /// connections.
  void end();
  /// Closes the store. It waits for a barrier or join of another thread, finishes the tensors that
  /// have begun to move, and waits until the other ranks know that this rank leaves. Rank 0 waits
  /// until all others have left. Until it returns, callbacks and deleters may call the session.
  ///
  /// Throws the error that has ended the store, if no call has told the program, and
  /// `invalid_argument` in a callback or a deleter. Does nothing in a forked child. If several
  /// threads call it, all wait.
  void close();

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  const topology::Topology& topology() const { return topology_; }

  /// Returns a list of `count` calls, which the caller fills in and submits. `verb` is a literal
  /// that names the calls in messages.
  std::shared_ptr<CallList> new_calls(std::size_t count, std::string_view verb);
  /// Does not block. Throws `duplicate_key`, or the error that ended the store.
  Pending submit(std::shared_ptr<CallList> list);
  /// Does the same as `submit`, for a thread that waits for the Pending at once and is not in a
  /// callback. The waiting thread moves the call itself, so no other thread is woken.
  Pending submit_to_wait(std::shared_ptr<CallList> list);
  /// Neither blocks. `from` may be `p2p::any_peer`. `source` is where the rank of the sender is
  /// written; it may be null. Both throw the error that ended the store.
  Pending send(const Tensor& tensor, int to, int tag);
  Pending receive(const Tensor& tensor, int from, int tag, int* source);
  /// Blocking and collective. Throws `invalid_argument` inside a callback.
  void barrier();
  int join();

  Tensor allocate(const Shape& shape, DType dtype);
  Counters counters() const;
  /// The sizes, limits and policies that the session uses besides its options. If an option has set
  /// a value, the origin is empty.
  std::vector<Choice> choices() const { return choices_; }

 private:
  enum class Telling : bool { nobody, caller };
  void close(Telling whom) TUTTI_EXCLUDES(closing_);
  void put(const std::shared_ptr<CallList>& list);
  Pending submit(std::shared_ptr<PeerCall> call);
  /// The function of the communication thread. It moves the executor until the store has ended, and
  /// then frees the memory of all keys and calls.
  void run();
  /// Submits the departure and waits for it. Returns the error that ended the store, if there is
  /// one.
  std::optional<Error> depart();
  /// Waits for the other ranks if this is the first rank, and leaves nothing of the store behind.
  /// Returns an error if a rank was lost meanwhile.
  std::optional<Error> leave_in_order();

  const Options options_;
  base::ForkGuard fork_guard_;
  const Place place_;
  const std::shared_ptr<CallPool> call_pool_ = std::make_shared<CallPool>();
  Inbox inbox_;
  LossLog loss_log_;
  std::unique_ptr<SessionParts> parts_;
  const topology::Topology topology_;  ///< a copy: the control plane may be closed before
  const std::size_t segment_bytes_;
  const std::vector<Choice> choices_;
  /// The control plane's count when the plane was closed. MPI_Finalize may close it before the
  /// session ends.
  std::optional<std::uint64_t> control_messages_ TUTTI_GUARDED_BY(counting_);
  mutable base::Mutex counting_{5};
  base::Mutex closing_{3};  ///< the destructor and MPI_Finalize may close at once
  Tally tally_;
  std::unique_ptr<Executor> executor_;  ///< until the store is closed
  std::shared_ptr<ProgressLock> progress_lock_;
  bool is_lost_ = false;  ///< a rank is; known once the thread has ended
  std::size_t keys_ = 0;  ///< the number of the store's keys; known once the thread has ended
  base::NamedThread thread_;
  bool ended_ = false;
  base::Mutex meeting_{3};  ///< one barrier or join at a time from this rank
};

}  // namespace tutti::runtime
