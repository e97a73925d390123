#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/bound.h"
#include "tutti/counters.h"
#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/key.h"
#include "tutti/optimizer.h"
#include "tutti/options.h"
#include "tutti/pending.h"
#include "tutti/reduce_op.h"
#include "tutti/shard.h"
#include "tutti/tensor.h"

namespace tutti {

/// Choices for one call.
struct CallOptions {
  /// A higher priority goes first.
  /// - `dist_sync_mpi`: the store chooses among the tensors that all ranks have submitted. If ranks
  ///   pass different priorities for a key, the highest counts.
  /// - Parameter server: the store chooses among the tensors that this worker has not sent yet.
  ///   Calls for the same key keep their order.
  int priority = 0;
  ReduceOp op = ReduceOp::sum;
};

/// Pass this as the rank of a `recv` to receive from any other rank.
inline constexpr int any_rank = -1;

class Backend;
struct Choice;
class FrontDesk;
struct MethodCall;
struct PeerRequest;
struct SettingCall;

/// A store exchanges named tensors between devices, processes and machines.
///
/// Threads: all methods are thread-safe. Methods that return a `Pending` never wait for other
/// ranks.
///
/// Ownership: the store borrows the tensors of a call until the call's `Pending` is done.
///
/// Overlapping outputs: a call throws `invalid_argument` if two of its outputs overlap in memory.
/// There are two exceptions: two keys of one broadcast may share a tensor, and a key that stands
/// twice in a call may name the same output both times. The store does not compare the outputs of
/// two calls in flight: if they overlap, their contents are undefined.
///
/// A key that stands twice in one call:
/// - `dist_sync_mpi`, and reduce_scatter and allgather in every type, throw `duplicate_key`.
/// - The parameter-server and local types put the key's tensors together, as if the call had given
///   them as one list. Only init and broadcast throw `invalid_argument` there.
///
/// A call for a key that is still in flight throws `duplicate_key` with `dist_sync_mpi`. The other
/// types accept it.
///
/// GPUs: the types `dist_sync_mpi`, `device`, `local_allreduce_device` and `nccl` take tensors on a
/// GPU. `nccl` takes no other tensors. A process uses one GPU (`Options::gpu`), and all tensors of
/// one key must be on it. `Tensor::on` and `Pending::wait_on` describe streams. A store of one
/// process keeps the value of a key on the GPU if the program's tensors are there, and its calls
/// only enqueue work on the GPU. But update rules run on the host. So if such a store has an
/// optimizer, push and pushpull block until the GPU has computed the gradient.
///
/// Heap: if a program repeats the same step, a `dist_sync_mpi` store soon allocates nothing from
/// the heap, except for:
/// - inputs that overlap the output of another key,
/// - several devices,
/// - `Pending::then`, `send` and `recv`.
///
/// Forked children: a child that is forked from the process that created the store gets
/// `unsupported` from every method that exchanges or changes something.
class TUTTI_EXPORT KVStore {
 public:
  /// Creates a store.
  ///
  /// `type` is one of these names, in upper or lower case:
  /// - MPI: dist_sync_mpi
  /// - parameter server: dist, dist_sync, dist_sync_device, dist_device_sync, dist_async,
  ///   dist_async_device, dist_device_async
  /// - one process, values on the CPU: local, local_update_cpu, local_allreduce_cpu
  /// - one process, values on devices: device, local_allreduce_device
  /// - one process, values on a GPU: nccl
  ///
  /// Under `scripts/launch.py --mode mpi` the synchronous parameter-server names mean
  /// dist_sync_mpi, and the asynchronous ones throw `unsupported`. Under `--mode ps` dist_sync_mpi
  /// throws `unsupported`.
  ///
  /// Errors of all types:
  /// - `invalid_argument`: the type is unknown, or an option is out of its range;
  /// - `unsupported`: this build does not have the type, or this process was forked from one that
  ///   had created a store;
  /// - `mismatch`: the ranks disagree.
  ///
  /// **`dist_sync_mpi`.** The call is collective over MPI_COMM_WORLD, or over `Options::ranks`. It
  /// blocks until all these ranks have called it; `Options::create_timeout` bounds each of its
  /// steps. It initialises MPI unless the program has done so. If several threads of a process
  /// create stores, they take turns.
  ///
  /// A process that a rank starts, such as a data loader, inherits the variables by which MPI knows
  /// the rank. The first process with these variables that creates a `dist_sync_mpi`
  /// store is the rank. The others get `unsupported`, even after the first has ended.
  ///
  /// More errors of `dist_sync_mpi`:
  /// - `timeout`: some ranks have not called `create`. The program may call `create` again on all
  ///   ranks, also on those that have waited in vain.
  /// - `internal`: `create_timeout` ran out while MPI was connecting several machines. MPI cannot
  ///   undo this step, so this job can create no more stores, and must end.
  /// - `peer_lost`: a rank has ended, or a rank on this machine has been stopped (for example by
  ///   SIGSTOP) for `heartbeat_timeout`. The error names the rank.
  ///
  /// Under `scripts/launch.py`, `create` throws `peer_lost` within seconds after a rank of the
  /// store has ended: on any machine, with any exit status, before that rank's own `create` or
  /// during it. The message names the rank's host, and its exit code or signal.
  ///
  /// Without that launcher, the placement of the ranks decides which ranks notice such an end:
  /// - If all ranks run on one machine, the others notice the end even if the rank had not called
  ///   `create` yet.
  /// - On several machines, the ranks on the lost rank's machine notice it and tell the others.
  ///   Other machines learn of the loss only if these ranks created a store before, or if every
  ///   rank has already entered this `create`.
  /// - If no other rank of the store runs on the lost rank's machine, or if the MPI launcher does
  ///   not set PMIX_RANK, no rank notices an end that comes before the ranks are connected.
  ///   `create` then throws `timeout`.
  ///
  /// Nothing can interrupt MPI_Init. If MPI_Init would wait for a lost rank, or longer than
  /// `create_timeout`, the process logs which ranks it waits for and exits with status 1.
  ///
  /// **Parameter server.** The process joins the job that these variables describe:
  /// DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER, DMLC_NUM_SERVER and TUTTI_JOB_KEY.
  /// `scripts/launch.py --mode ps` sets them. The call blocks until every process of the job is
  /// there.
  ///
  /// More errors of these types:
  /// - `invalid_argument`: one of the variables is missing, or this process has an open store of
  ///   such a type. Close that store, or use it.
  /// - `mismatch`: the processes of the job differ, for example in tutti's version, in the number
  ///   of workers, or in the type of the store. The error says in what.
  /// - `timeout`: some processes have not come. The error names them.
  /// - `peer_lost`: under `scripts/launch.py`, a worker, a server or the scheduler ended before all
  ///   had come, with whatever status. This error comes within seconds, and its message names the
  ///   host, and the exit code or signal. Under any launcher: another worker's process has ended
  ///   since the job's previous store; the error names that worker.
  ///
  /// A job may have several stores, one after another. All workers create each of them, with the
  /// same type. Each store begins without keys and without an optimizer. Servers that keep their
  /// state on disk go on from the state that the previous store left there. The scheduler and the
  /// servers end when all workers' processes have ended. These types have no reduce_scatter,
  /// allgather, all_to_all, join, send and recv: each of these throws `unsupported`, and its
  /// message says what to call instead.
  static std::unique_ptr<KVStore> create(std::string_view type);
  static std::unique_ptr<KVStore> create(std::string_view type, const Options& options);

  /// Only `create` calls this constructor: Backend is not part of the API.
  explicit KVStore(std::unique_ptr<Backend> backend);
  /// Closes the store like `close`, and blocks as long, but throws nothing. If `close` would have
  /// thrown, the process later exits with status 1 where it would have exited with status 0.
  ///
  /// Destroy a store before `main` returns. Do not destroy it in a callback or in a tensor's
  /// deleter: that ends the process.
  ///
  /// **The end of the process.** If tutti initialised MPI, a process that exits with status 0 calls
  /// MPI_Finalize. A process that exits with another status does not wait for other ranks. Whether
  /// tutti or the program calls MPI_Finalize, the call waits until all ranks have called it. After
  /// `stall_report_after` it logs for which ranks it waits. It stops waiting, and the process ends
  /// at once with status 1, when:
  /// - a rank on this machine has died,
  /// - a rank on this machine has been stopped for `heartbeat_timeout`, or
  /// - it has waited for any rank for `key_timeout`.
  ~KVStore();
  KVStore(const KVStore&) = delete;
  KVStore& operator=(const KVStore&) = delete;

  /// Closes the store. Afterwards, methods that exchange or change something throw `aborted`. A
  /// second call does nothing, and neither does a call in a forked child.
  ///
  /// Calls in flight: tensors that have begun to move finish on every rank. Other calls that need
  /// this rank fail with `aborted` on the other ranks.
  ///
  /// Every thread that calls `close` blocks until the store is closed. With `dist_sync_mpi`:
  /// - Rank 0 waits until all ranks have closed their stores.
  /// - The first rank of each machine waits until the ranks of its machine have closed theirs.
  /// - If another thread of this process is in a barrier or a join, `close` waits until that call
  ///   has ended.
  ///
  /// Errors:
  /// - the error that ended the store, such as `peer_lost`, if no other call has thrown it yet. The
  ///   store is closed all the same.
  /// - `invalid_argument` in a callback or in a tensor's deleter.
  void close();

  /// The type string that was passed to `create`, in lower case; "dist_sync_mpi" where the launcher
  /// made the name mean that.
  const std::string& type() const;
  /// This process's index, and the number of processes. A store of one process has 0 and 1.
  int rank() const;
  int num_workers() const;
  /// This process's index among the processes on its machine, their number, and the number of
  /// machines. A store of one process has 0, 1 and 1. With a parameter server these count workers
  /// alone. Processes are on one machine if they share its boot and its network name space; the
  /// names of hosts do not matter.
  int local_rank() const;
  int local_size() const;
  int nodes() const;

  /// Reduces a key's `ins` over this process's devices and over all ranks, and writes the result to
  /// each of the `outs`. `outs` may be the same tensors as `ins`.
  ///
  /// Returns at once. Collective: every rank calls it once for the key. Ranks may call it for
  /// different keys in different orders.
  ///
  /// A key may have another dtype and shape at each call, in every store type, unless the store has
  /// an optimizer (see `push`). With `dist_sync_mpi` some ranks may pass an empty list of `outs`:
  /// they contribute to the result but do not receive it, as in a reduce to the other ranks.
  ///
  /// Errors:
  /// - The call itself throws the errors that this rank sees alone, such as `duplicate_key` and
  ///   `invalid_argument`. It also throws the error that has ended the store, if one has.
  /// - A disagreement between ranks comes through the `Pending`, as `mismatch`.
  /// - A `timeout` also comes through the `Pending`, on all ranks alike. No rank's contribution was
  ///   used; all ranks may call again.
  /// - `aborted`, if a rank that the call needs has closed its store, and the errors that end the
  ///   store, such as `peer_lost`, come through the `Pending`, too.
  Pending pushpull(const Key& key, const Values& ins, const Values& outs, CallOptions options = {});
  Pending pushpull(const std::vector<Key>& keys, const std::vector<Values>& ins,
                   const std::vector<Values>& outs, CallOptions options = {});

  /// Does the same as pushpull, and waits for it: blocks until every rank has made its call for the
  /// key. With `dist_sync_mpi` the calling thread moves the tensors itself, so this takes less time
  /// than `pushpull(...).wait()`. A program that computes meanwhile calls pushpull. A call of
  /// allreduce meets calls of pushpull by other ranks.
  ///
  /// Errors: those that pushpull and `Pending::wait` throw. In a callback or a tensor's deleter it
  /// throws `invalid_argument`, and submits nothing.
  void allreduce(const Key& key, const Values& ins, const Values& outs, CallOptions options = {});
  void allreduce(const std::vector<Key>& keys, const std::vector<Values>& ins,
                 const std::vector<Values>& outs, CallOptions options = {});
  /// The same, but blocks for `limit` at most. The call that it returns may then not be done, and
  /// goes on. If the call has failed by then, this throws its error.
  Pending allreduce_for(std::chrono::nanoseconds limit, const std::vector<Key>& keys,
                        const std::vector<Values>& ins, const std::vector<Values>& outs,
                        CallOptions options = {});

  /// Settles the arguments of a pushpull that the program will make again and again. The program
  /// then makes the calls by `Bound::start` or `Bound::run`.
  ///
  /// Not collective, and does not block: it checks the arguments, and submits nothing. It throws
  /// the errors of pushpull that depend on the arguments alone. Each start throws the others, such
  /// as `duplicate_key`, or that the store cannot use the GPU of a tensor. As with any call, the
  /// first key decides whether the store's keys are numbers or strings.
  Bound bind(const Key& key, const Values& ins, const Values& outs, CallOptions options = {});
  Bound bind(const std::vector<Key>& keys, const std::vector<Values>& ins,
             const std::vector<Values>& outs, CallOptions options = {});

  /// Writes the first of the root's `values` to each of the `values` of every rank. Returns at
  /// once. Collective. Fails as pushpull does.
  ///
  /// The parameter-server and local types also store the value under the key. It replaces the
  /// stored value, if there is one, whatever its shape. So a broadcast, unlike `init`, may name a
  /// key that already has a value.
  Pending broadcast(const Key& key, const Values& values, int root_rank, CallOptions options = {});
  Pending broadcast(const std::vector<Key>& keys, const std::vector<Values>& values, int root_rank,
                    CallOptions options = {});

  // reduce_scatter and allgather are the two halves of a pushpull. They are for programs in which
  // each rank keeps one shard, for example of the optimizer's state. A reduce_scatter followed by
  // an allgather gives the same bits as a pushpull. Both return at once, are collective, and fail
  // as pushpull does. In a store of one process the shard is the whole tensor, and the store stores
  // nothing under the key. Parameter-server types do not have them.

  /// Reduces the `ins` over this process's devices and over all ranks, and writes this rank's shard
  /// of the result to each of the `outs`. The shard consists of the elements `shard(in.count(),
  /// rank(), num_workers())` in row-major order.
  ///
  /// Shapes: the `ins` are whole tensors, with the same shape on all ranks. The `outs` have the
  /// dtype of the `ins`, as many elements as the shard (perhaps none), and any shape. An output may
  /// be exactly this rank's shard of an input.
  ///
  /// If a rank has joined, nobody receives its shard.
  Pending reduce_scatter(const Key& key, const Values& ins, const Values& outs,
                         CallOptions options = {});
  Pending reduce_scatter(const std::vector<Key>& keys, const std::vector<Values>& ins,
                         const std::vector<Values>& outs, CallOptions options = {});

  /// Puts the ranks' shards together, and writes the whole tensor to each of the `outs` of every
  /// rank. Each rank contributes the first of its `ins`.
  ///
  /// Shapes: that input has `shard(out.count(), rank(), num_workers())` elements, in any shape. The
  /// `outs` have the same shape on all ranks. An input may be exactly this rank's shard of an
  /// output.
  ///
  /// The elements travel unchanged, whatever `set_gradient_compression` says. If a rank has joined,
  /// the call ends in `aborted` and the error names that rank.
  Pending allgather(const Key& key, const Values& ins, const Values& outs,
                    CallOptions options = {});
  Pending allgather(const std::vector<Key>& keys, const std::vector<Values>& ins,
                    const std::vector<Values>& outs, CallOptions options = {});

  /// Sends each rank its share of `in`, and fills `out` with the shares that the ranks send to this
  /// rank. The share that this rank has for itself is copied. Parameter-server types do not have
  /// this call.
  ///
  /// `counts` is a matrix with one row for each sender and one column for each receiver: rank s
  /// sends `counts[s * num_workers() + r]` elements, perhaps 0, to rank r. In `in` the shares lie
  /// one after the other, ordered by receiver; in `out`, ordered by sender. So:
  /// - `in` has as many elements as row `rank()` adds up to;
  /// - `out` has as many elements as column `rank()` adds up to;
  /// - both have the same dtype, each has any shape, and both may be one tensor.
  ///
  /// Only the elements that `counts` names move. So if all numbers outside one column are 0, the
  /// call gathers; if all numbers outside one row are 0, it scatters.
  ///
  /// Returns at once, and copies `counts`. Collective: all ranks pass the same dtype and the same
  /// matrix. A rank that knows its own row alone can get the other rows by an `allgather`. The
  /// elements travel unchanged, whatever `set_gradient_compression` says.
  ///
  /// Errors, besides those of pushpull:
  /// - `mismatch`, through the `Pending`: the ranks passed different dtypes or matrices;
  /// - `aborted`, through the `Pending`: a rank has joined. The error names it.
  Pending all_to_all(const Key& key, const Tensor& in, const Tensor& out,
                     const std::vector<std::size_t>& counts, CallOptions options = {});

  /// Sends a tensor to one other rank, which calls `recv` for it. Only `dist_sync_mpi` has send and
  /// recv, and only for tensors on the CPU.
  ///
  /// Not collective: only the two ranks call them, at any time, beside all other calls and in as
  /// many threads as they want. They have no key, and need not be in any order with other calls. If
  /// a rank sends several tensors to one rank with one tag, the first of them goes to the first
  /// `recv` there that accepts it. The two tensors have the same dtype and number of elements;
  /// their shapes may differ. The elements travel unchanged.
  ///
  /// Both calls return at once. Both Pendings are done when the receiver has all elements: a send
  /// is not done before its recv, as with MPI_Issend. So if two ranks each wait for their send
  /// before they call recv, both wait until `timeout`. The tensors are borrowed until the Pendings
  /// are done.
  ///
  /// Errors at the call:
  /// - `invalid_argument`: the rank does not exist or is this rank itself, or the tag is below 0;
  /// - `unsupported`: the tensor is on a GPU.
  ///
  /// Errors through the `Pending`, which name the other rank:
  /// - `mismatch`, on both ranks: the dtypes or numbers of elements differ. Both calls are over.
  /// - `timeout`: the other rank did not make its call within `key_timeout`. If the other rank
  ///   makes the matching send or recv later, that call ends in `timeout`, too: it is not paired
  ///   with any other call. Both ranks must make their calls again.
  /// - `aborted`: one of the two ranks closed its store before the two calls met. `close` waits for
  ///   calls that have met.
  /// - `internal`: the calls have met, but no element has moved for `key_timeout`, and for at least
  ///   a minute. This ends the store.
  /// - `peer_lost`: a rank of the store is lost.
  Pending send(const Tensor& tensor, int to_rank, int tag = 0);
  /// Receives a tensor that one other rank sends; `send` describes both.
  ///
  /// `from_rank` may be `any_rank`. The recv then takes the send with this tag that was announced
  /// to this rank first. Unless `source` is null, the store writes the sender's rank to it before
  /// the `Pending` is done without an error; `source` must live until then.
  ///
  /// More `timeout` errors of a recv from `any_rank`:
  /// - If some rank's send with this tag has ended in `timeout`, this recv ends in `timeout`, too,
  ///   and names that rank. It does so before it takes a tensor that another rank sends.
  /// - If the recv itself ends in `timeout`, the next send with its tag ends in `timeout`, too,
  ///   whichever rank makes it.
  Pending recv(const Tensor& tensor, int from_rank, int tag = 0, int* source = nullptr);

  // The methods from here to num_dead_node are for the parameter-server and local types. With
  // `dist_sync_mpi` they throw `unsupported`.

  /// Stores a copy of each key's first value. With a parameter server the store keeps worker 0's
  /// value, and the call blocks until every worker has called it.
  ///
  /// Throws `invalid_argument` if one of the keys already has a value. A store of one process then
  /// stores nothing; with a parameter server the other keys of the call get their values.
  void init(const std::vector<Key>& keys, const std::vector<Values>& values);
  /// push replaces a key's stored value by the sum (or by the result of `op`) of its `values` on
  /// all workers. pull copies the stored value to each of the `outs`. Both return at once.
  ///
  /// Both fail with `invalid_argument` if the key has no stored value, or if the tensors have
  /// another dtype or shape than the stored value.
  ///
  /// pushpull does both in one call, with these differences:
  /// - The stored value takes the dtype and shape of the call's tensors.
  /// - If there is no stored value, pushpull only reduces.
  ///
  /// Once the store has an optimizer, push and pushpull use the sum as a gradient: they update the
  /// stored value by it. pushpull then needs a stored value of the same dtype and shape, as push
  /// does.
  ///
  /// With a parameter server:
  /// - Errors come through the `Pending`, on every worker alike.
  /// - A key may be in flight several times. The store executes a worker's calls for a key in the
  ///   order in which the worker made them, so a pull gets the value after the worker's last push.
  /// - The synchronous types (`dist_sync` and so on) merge the n-th push of every worker, and then
  ///   update once.
  /// - The asynchronous types (`dist_async` and so on) update once for each push, as soon as it
  ///   arrives. Each update is applied whole. They need an optimizer. `average` divides each push
  ///   by the number of workers; `min` and `max` are taken over the devices of one worker.
  Pending push(const std::vector<Key>& keys, const std::vector<Values>& values,
               CallOptions options = {});
  Pending pull(const std::vector<Key>& keys, const std::vector<Values>& outs,
               CallOptions options = {});
  /// Copies some rows of the stored value to each of the `outs`, and fills their other rows with
  /// zeros. A row consists of all elements with one index in the first dimension. Only the rows
  /// that `row_ids` names travel. Blocks until the rows are there.
  ///
  /// `outs` have the dtype and shape of the stored value. `row_ids` has one tensor for each key, of
  /// any shape and dtype, whose elements are whole numbers. It may name a row several times, and it
  /// may be empty.
  ///
  /// Throws `invalid_argument` for a row that the value does not have, and fails as pull does.
  void row_sparse_pull(const std::vector<Key>& keys, const std::vector<Values>& outs,
                       const std::vector<Tensor>& row_ids);

  /// From now on the store updates its values by this rule. A second call with the same rule gives
  /// the rule new parameters, such as a learning rate, and keeps the rule's state of each key, such
  /// as its momentum.
  ///
  /// Throws `invalid_argument` for an unknown rule or parameter, a value out of range, and a key of
  /// more than `Key::max_bytes`. Then nothing has changed.
  ///
  /// With a parameter server:
  /// - Synchronous types: every worker calls it with the same rule. It blocks until all have called
  ///   it.
  /// - Asynchronous types: it blocks until worker 0 has called it, and worker 0's rule counts. If
  ///   worker 0 has left or is lost, the lowest of the other workers takes its place.
  /// - A worker that passes another rule gets `mismatch`.
  /// - If the call ends in `timeout`, all workers get it; with asynchronous types only the worker
  ///   that waited. Then nothing has changed, and these workers may call again.
  /// - Set lamb before a key's first init or broadcast. Lamb needs the norm of the whole value, so
  ///   the servers then keep the value in one piece.
  void set_optimizer(const Optimizer& optimizer);
  /// Writes the rule's state of each key, such as its momentum, to a file. With `dump_optimizer` it
  /// also writes the rule and its parameters. The file is replaced as a whole or not at all. Blocks
  /// until the file is written.
  ///
  /// Throws `invalid_argument` if there is no optimizer, and `internal` if it cannot write the
  /// file. The store lives on in both cases.
  ///
  /// With a parameter server it gathers the states of all servers, after the servers have executed
  /// this worker's earlier calls. It is not collective: one worker is enough, any worker may call
  /// it, and each worker writes the file that it names. With synchronous types all these files are
  /// equal if the workers have made the same calls.
  void save_optimizer_states(const std::string& path, bool dump_optimizer = false);
  /// Loads the states from a file of `save_optimizer_states`, and the optimizer, too, if the file
  /// has it. A store with any number of servers can load the file, and so can a store of one
  /// process.
  ///
  /// Throws `invalid_argument` if the file is missing or damaged, or has the states of another
  /// rule. Then nothing has changed. If the file has the states of another model, the error comes
  /// when the program pushes the key concerned.
  ///
  /// With a parameter server every worker calls it, and it blocks until all have called it; with
  /// asynchronous types it blocks until worker 0 has called it. Only worker 0 reads its file; the
  /// other workers need no file. If worker 0 cannot read the file, all workers get that error. If
  /// worker 0 has left or is lost, they get an error that says so.
  void load_optimizer_states(const std::string& path);

  /// Returns how many processes of the job (scheduler, servers and workers) were lost since
  /// `create`; 0 in a store of one process. Does not block.
  int num_dead_node() const;

  /// Sets the format in which f32 tensors travel between nodes: "none", "fp16" or "bf16". All ranks
  /// call it with the same value before the first tensor. Broadcasts and allgathers of keys that
  /// begin with "tutti:" do not count as a first tensor.
  ///
  /// Errors:
  /// - `invalid_argument`: the call comes after the first tensor;
  /// - `unsupported`: the store type does not have the format. A store of one process sends
  ///   nothing, and has "none" alone.
  ///
  /// With "fp16", an element becomes infinite if the sum over one node exceeds 65504.
  ///
  /// With a parameter server this is the format of gradients on their way to the servers: of push
  /// and pushpull with sum or average. All other tensors travel whole, and so do the values that
  /// come back. The call blocks until all workers have called it. If they pass different formats,
  /// they get `mismatch`.
  ///
  /// A parameter server also has "2bit" and "1bit", for f32, f16 and bf16; a push or pushpull of
  /// another dtype then throws `invalid_argument`. For each key a worker keeps a residual: the part
  /// of its gradients that it has not sent yet. It adds each gradient to the residual, sends a
  /// rounded form of that, and subtracts what it sent:
  /// - "2bit" sends +threshold, -threshold or 0 for each element: 16 times fewer bits than f32.
  /// - "1bit" sends +1 for an element above the threshold, else -1: 32 times fewer bits.
  ///
  /// If one input element is NaN or infinite, so is that element of the sum, and the residual keeps
  /// nothing of it. With "2bit" the element arrives as NaN. With "1bit" the part of the tensor that
  /// holds it travels whole.
  ///
  /// If a push fails, the residual may already hold what rounding has left over of its gradient. If
  /// the program pushes that gradient again, this remainder counts twice.
  ///
  /// `threshold` is finite, above 0 with "2bit" and at least 0 with "1bit"; otherwise the call
  /// throws `invalid_argument`. Other formats have no threshold.
  void set_gradient_compression(std::string_view kind, double threshold = 0.5);

  /// Blocks until every rank has called it. It promises nothing about tensors in flight, which may
  /// still move when it returns: wait for their Pendings. After `key_timeout` it throws `timeout`
  /// and names the ranks that did not come. With a parameter server the scheduler's `key_timeout`
  /// counts.
  void barrier();
  /// A rank that has run out of data calls this. Until every rank has joined, this rank contributes
  /// the identity of the operation (0 to a sum) to what the other ranks reduce, and `average` does
  /// not count this rank. Collective. Blocks until all ranks have joined, and returns the last rank
  /// to join.
  int join();

  /// Allocates a tensor in memory that the ranks of a node share, so that it is exchanged without
  /// copies. Not collective. Blocks while the kernel clears the memory and puts it into huge pages,
  /// which takes 0.5 to 3 ms for each MiB.
  ///
  /// Throws `internal` if there is not enough memory; the store lives on. Throws the error that
  /// ended the store, if one did.
  ///
  /// The tensor may outlive the store. Other ranks write results into it; after a `peer_lost` they
  /// may still do so for a moment.
  ///
  /// On a GPU the tensor is memory of the device, with undefined contents. Types that take no
  /// tensors on a GPU throw `unsupported`.
  Tensor allocate(const Shape& shape, DType dtype, Device device = {});

  /// Returns what the store has done on this rank. Does not block.
  Counters counters() const;

  /// Returns the sizes, limits and policies that this store uses, and where each comes from (see
  /// `tutti/info.h`). For people to read. Empty in stores of one process. Does not block.
  std::vector<Choice> choices() const;

 private:
  Pending submit(const MethodCall& call);
  Pending pass(const PeerRequest& request);
  void configure(const SettingCall& setting);

  std::shared_ptr<Backend> backend_;
  std::shared_ptr<FrontDesk> front_desk_;
};

}  // namespace tutti
