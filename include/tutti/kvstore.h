#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/counters.h"
#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/key.h"
#include "tutti/options.h"
#include "tutti/pending.h"
#include "tutti/reduce_op.h"
#include "tutti/shard.h"
#include "tutti/tensor.h"

namespace tutti {

/// Per-call choices.
struct CallOptions {
  /// Higher goes first among tensors that are ready together. Where ranks differ the maximum wins.
  int priority = 0;
  ReduceOp op = ReduceOp::sum;
};

class Backend;
struct Choice;
class FrontDesk;
struct MethodCall;
struct Setting;

/// The store: named tensors exchanged between devices, processes and machines.
///
/// All methods are thread-safe. Calls that return a `Pending` never block for other ranks. A key
/// is one call at a time: a second call for a key in flight throws `duplicate_key`. Tensors are
/// borrowed until the `Pending` is done. `dist_sync_mpi` takes nothing from the heap in steps that
/// repeat, but for inputs that lie in another key's output, several devices, and `Pending::then`.
class TUTTI_EXPORT KVStore {
 public:
  /// `type` (any case) is one of: dist_sync_mpi; dist, dist_sync, dist_async, dist_sync_device,
  /// dist_device_sync, dist_async_device, dist_device_async; local, local_update_cpu,
  /// local_allreduce_cpu; device, local_allreduce_device; nccl. For `dist_sync_mpi` it is
  /// collective over MPI_COMM_WORLD, blocking (see `create_timeout`), and initialises MPI if
  /// nobody has; threads of one process take turns. Throws `invalid_argument` for an unknown type
  /// or an option out of its range, `unsupported` for a type this build does not have and in a
  /// child of a process that created a store, `mismatch` when ranks disagree.
  ///
  /// `dist_sync_mpi` throws `timeout` when ranks do not come. It may be called again: the ranks
  /// that then call it make the store, though some gave up before. It throws `peer_lost`, naming
  /// the rank, when a rank on this machine ends, or is stopped for `heartbeat_timeout`; a rank on
  /// another machine is noticed once the ranks have found each other, before that only by the time
  /// limit. Nothing interrupts MPI_Init: where it would wait for a lost rank or longer than
  /// `create_timeout`, the process says for whom and ends with status 1.
  static std::unique_ptr<KVStore> create(std::string_view type);
  static std::unique_ptr<KVStore> create(std::string_view type, const Options& options);

  /// What `create` uses; a Backend is no part of the API.
  explicit KVStore(std::unique_ptr<Backend> backend);
  /// Ends in order: started tensors finish on every rank, others that need this one fail with
  /// `aborted` elsewhere. Blocks until then; `dist_sync_mpi` on rank 0, and wherever other ranks'
  /// messages pass, until those have closed theirs. Before `main` returns, and never in a callback,
  /// which ends the process.
  ///
  /// A process that exits with status 0 waits in MPI_Finalize, if tutti initialised MPI, until all
  /// ranks exit, and says for whom after `stall_report_after`. A rank on this machine that has
  /// died, or is stopped for `heartbeat_timeout`, and any rank after `key_timeout`, is not waited
  /// for: the process ends without MPI_Finalize and with status 1. With another status it does not
  /// wait.
  ~KVStore();
  KVStore(const KVStore&) = delete;
  KVStore& operator=(const KVStore&) = delete;

  /// The type string asked for, lower-cased.
  const std::string& type() const;
  /// This process's index and the number of processes; 0 and 1 for stores of one process.
  int rank() const;
  int num_workers() const;

  /// Reduces over this process's devices and all ranks, and gives the result to every `outs`. A key
  /// may have another dtype and shape at each call, in every type.
  /// Collective: every rank calls it once for the key, in any order among keys. `outs` may be
  /// `ins`. Throws `duplicate_key` and `invalid_argument` at the call; what other ranks must agree
  /// on comes through the `Pending`.
  Pending pushpull(const Key& key, const Values& ins, const Values& outs, CallOptions options = {});
  Pending pushpull(const std::vector<Key>& keys, const std::vector<Values>& ins,
                   const std::vector<Values>& outs, CallOptions options = {});

  /// Gives every `values` of every rank the root's first one. Collective, and throws, as pushpull.
  /// In the parameter-server and local types it also initialises the key, as `init` does.
  Pending broadcast(const Key& key, const Values& values, int root_rank, CallOptions options = {});
  Pending broadcast(const std::vector<Key>& keys, const std::vector<Values>& values, int root_rank,
                    CallOptions options = {});

  // The two halves of a pushpull, for programs whose ranks keep a shard each, of the optimizer's
  // state, say. An allgather of what reduce_scatter gives is what pushpull gives, bit by bit. Both
  // return at once, are collective, and throw, as pushpull. In a store of one process the shard is
  // the whole tensor, and nothing is stored under the key.

  /// Reduces the `ins`, whole tensors, over this process's devices and all ranks, and gives every
  /// `outs` this rank's shard of the result: the elements `shard(in.count(), rank(),
  /// num_workers())` in row-major order. `outs` have the dtype of `ins`, that many elements
  /// (perhaps none), and any shape; `ins` have the same shape on all ranks. An output may be that
  /// very part of an input. The shard of a rank that has joined is reduced for nobody.
  Pending reduce_scatter(const Key& key, const Values& ins, const Values& outs,
                         CallOptions options = {});
  Pending reduce_scatter(const std::vector<Key>& keys, const std::vector<Values>& ins,
                         const std::vector<Values>& outs, CallOptions options = {});

  /// Gives every `outs` of every rank, whole tensors, what the ranks' shards make together: each
  /// rank brings the first of its `ins`, of `shard(out.count(), rank(), num_workers())` elements
  /// and any shape; `outs` have the same shape on all ranks. An input may be that very part of an
  /// output. Travels as it is, whatever `set_gradient_compression` says. Ends in `aborted`, naming
  /// the rank, when a rank has joined.
  Pending allgather(const Key& key, const Values& ins, const Values& outs,
                    CallOptions options = {});
  Pending allgather(const std::vector<Key>& keys, const std::vector<Values>& ins,
                    const std::vector<Values>& outs, CallOptions options = {});

  // Parameter-server and local types only, down to load_optimizer_states; `unsupported` with
  // `dist_sync_mpi`. Not one of the types of today has an optimizer or row-sparse values.

  /// Makes a key known, with the first of its `values`, which are copied. Throws
  /// `invalid_argument` for a key that is known already; then none of the call's keys is.
  void init(const std::vector<Key>& keys, const std::vector<Values>& values);
  /// push stores the sum (or `op`) of all `values` in place of what the key had; pull gives the
  /// stored value to every `outs`. Both throw `invalid_argument` for a key that is not known and
  /// for tensors of another dtype or shape than its own. pushpull does both: it reduces without
  /// storing where the key is not known, and gives a stored value the dtype and shape of its own
  /// tensors.
  Pending push(const std::vector<Key>& keys, const std::vector<Values>& values,
               CallOptions options = {});
  Pending pull(const std::vector<Key>& keys, const std::vector<Values>& outs,
               CallOptions options = {});
  void row_sparse_pull(const std::vector<Key>& keys, const std::vector<Values>& outs,
                       const std::vector<Tensor>& row_ids);
  void set_optimizer(std::string_view name);
  void save_optimizer_states(const std::string& path, bool dump_optimizer = false);
  void load_optimizer_states(const std::string& path);

  /// What travels between ranks. Collective in effect: all ranks call it with the same value before
  /// the first tensor; later it throws `invalid_argument`. With "fp16" what a node has summed and
  /// exceeds 65504 becomes infinite. Parameter servers also know "2bit" and "1bit".
  void set_gradient_compression(std::string_view kind);

  /// Blocks until every rank has called it. A meeting, not a flush: tensors in flight stay so.
  void barrier();
  /// For a rank that ran out of data: until every rank has joined, it contributes the identity of
  /// the operation to what the others reduce, and `average` does not count it. Blocks until all
  /// have joined; returns the last rank to join.
  int join();

  /// A tensor in node-shared memory: exchanged without copies. Local call. Blocks while the kernel
  /// clears the memory and joins it to huge pages: 0.5 to 3 ms a MiB. Throws `internal` when
  /// the memory is not there, and what the store died of. It may outlive the store. Other ranks
  /// write results into it, after a `peer_lost` perhaps for a moment longer.
  Tensor allocate(const Shape& shape, DType dtype);

  /// Does not block.
  Counters counters() const;
  /// Sizes, limits and policies that this store uses, with where each comes from (`tutti/info.h`);
  /// for people. None in stores of one process. Does not block.
  std::vector<Choice> choices() const;

 private:
  Pending submit(MethodCall request);
  void configure(const Setting& setting);

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<FrontDesk> front_desk_;
};

}  // namespace tutti
