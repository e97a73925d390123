#pragma once
#include <chrono>
#include <memory>
#include <utility>

#include "tutti/export.h"
#include "tutti/pending.h"

namespace tutti {

class BoundCall;

/// A pushpull whose arguments are settled. A program that makes the same call in every step binds
/// it once by `KVStore::bind`, and then only starts it, as with a persistent collective of MPI. The
/// store has checked the arguments in `bind`, so a start takes less time than a pushpull.
///
/// Each start is an ordinary call for the keys. It meets the calls of pushpull and allreduce, and
/// the bound calls, that other ranks make for these keys.
///
/// Ownership: the tensors belong to the binding, too. Memory that they borrow must live until the
/// binding is destroyed and its last call is done. While no call is in flight, the program may read
/// and write the tensors.
///
/// Copies refer to the same binding. If the program destroys a binding whose call is in flight, the
/// call goes on, as if its Pending had been dropped. A binding may outlive its store, and does not
/// keep the store open. A Bound that was moved from refers to no binding, and its calls throw
/// `invalid_argument`.
///
/// Thread-safe.
class TUTTI_EXPORT Bound {
 public:
  /// Only `KVStore::bind` calls this constructor: BoundCall is not part of the API.
  explicit Bound(std::shared_ptr<BoundCall> call) : call_(std::move(call)) {}

  /// Submits the call, as pushpull does, and returns at once. The program may drop the Pending and
  /// call `wait` instead. If a tensor has a stream, the call reads and writes the tensor only after
  /// the work that is in the stream at the time of this start.
  ///
  /// Errors. After each of them the program may start the call again:
  /// - `duplicate_key`, with `dist_sync_mpi`: one of the keys is in flight, be it by an earlier
  ///   start of this binding;
  /// - `aborted`: the store is closed or destroyed;
  /// - `unsupported` in a forked child;
  /// - the error that has ended the store, if one has.
  Pending start() const;
  /// Blocks until the call of the last `start`, `run` or `run_for` is done. Throws as
  /// `Pending::wait` does. If there was no start yet, it returns at once.
  void wait() const;
  /// Like `wait`, but returns false if the call is not done after `limit`. Throws as `wait` does.
  bool wait_for(std::chrono::nanoseconds limit) const;
  /// Starts the call, and waits for it. As with `KVStore::allreduce`, the calling thread moves the
  /// tensors itself, so this takes less time than `start` and `wait`.
  ///
  /// Errors: those that `start` and `wait` throw. In a callback or a tensor's deleter it throws
  /// `invalid_argument`, and submits nothing.
  void run() const;
  /// The same, but blocks for `limit` at most. The call that it returns may then not be done, and
  /// goes on. If the call has failed by then, this throws its error.
  Pending run_for(std::chrono::nanoseconds limit) const;

 private:
  std::shared_ptr<BoundCall> call_;
};

}  // namespace tutti
