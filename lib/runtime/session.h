#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "runtime/bootstrap.h"
#include "runtime/executor.h"
#include "runtime/fork_guard.h"
#include "runtime/helm.h"
#include "runtime/inbox.h"
#include "tutti/kvstore.h"

namespace tutti::runtime {

/// The running half of a `dist_sync_mpi` store: owns its MPI communicators, node memory, control
/// plane and communication thread, and is the one place where they are put together.
///
/// Thread-safe, except that construction is collective and destruction ends everything.
class Session {
 public:
  /// Collective, blocking. See KVStore::create for what it throws.
  Session(World world, const Options& options);
  /// Started tensors finish; waits until the others know that this rank leaves (rank 0: until all
  /// have left).
  ~Session();

  int rank() const { return parts_->topology().rank; }
  int size() const { return parts_->topology().size; }

  /// Does not block. Throws `duplicate_key`, or what the store died of.
  Pending submit(std::vector<TensorCall> calls, std::string what);
  /// Blocking and collective.
  void barrier();
  int join();

  Tensor allocate(const Shape& shape, DType dtype);
  Counters counters() const;

 private:
  void close();

  const Options options_;
  ForkGuard fork_guard_;
  std::unique_ptr<Parts> parts_;
  Inbox inbox_;
  Tally tally_;
  std::unique_ptr<Executor> executor_;
  std::shared_ptr<Helm> helm_;
  base::NamedThread thread_;
  base::Mutex meeting_;  ///< one barrier or join at a time from this rank
};

}  // namespace tutti::runtime
