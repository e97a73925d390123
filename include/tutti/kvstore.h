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
#include "tutti/optimizer.h"
#include "tutti/options.h"
#include "tutti/pending.h"
#include "tutti/reduce_op.h"
#include "tutti/shard.h"
#include "tutti/tensor.h"

namespace tutti {

/// Per-call choices.
struct CallOptions {
  /// Higher goes first among tensors that are ready together. Where ranks differ the maximum wins.
  /// With a parameter server: among those that this worker has yet to send, but for one key in the
  /// order of its calls.
  int priority = 0;
  ReduceOp op = ReduceOp::sum;
};

/// As the rank of a `recv`: takes what any other rank sends.
inline constexpr int any_rank = -1;

class Backend;
struct Choice;
class FrontDesk;
struct MethodCall;
struct PeerRequest;
struct Setting;

/// The store: named tensors exchanged between devices, processes and machines.
///
/// All methods are thread-safe. Calls that return a `Pending` never wait for other ranks. A key
/// twice in one call throws `duplicate_key`, and with `dist_sync_mpi` so does a second call for a
/// key in flight. Tensors are borrowed until the `Pending` is done. Where two outputs of one call
/// overlap in memory, the call throws `invalid_argument`; only in a broadcast two keys may share
/// one tensor. The outputs of two calls in flight are not compared: if they overlap, their contents
/// are undefined.
///
/// Tensors on a GPU are for `dist_sync_mpi`, `device`, `local_allreduce_device` and `nccl`, which
/// takes no others; those of one key are on one GPU (`Options::gpu`). See `Tensor::on` and
/// `Pending::wait_on` for streams. In stores of one process values stay on the GPU, and calls
/// enqueue work there; with an optimizer, whose rules run on the host, push and pushpull wait for
/// the gradient.
///
/// In steps that repeat `dist_sync_mpi` takes nothing from the heap, except for
/// inputs that overlap another key's output, for several devices, for `Pending::then`, `send` and
/// `recv`. In a forked child of the process that created the store every method that exchanges or
/// changes something throws `unsupported`.
class TUTTI_EXPORT KVStore {
 public:
  /// `type` (any case) is one of: dist_sync_mpi; dist, dist_sync, dist_async, dist_sync_device,
  /// dist_device_sync, dist_async_device, dist_device_async; local, local_update_cpu,
  /// local_allreduce_cpu; device, local_allreduce_device; nccl. For `dist_sync_mpi` it is
  /// collective over MPI_COMM_WORLD, blocking (see `create_timeout`), and initialises MPI if
  /// nobody has; threads of one process take turns. Throws `invalid_argument` for an unknown type
  /// or an option out of its range, `unsupported` for a type this build does not have and in a
  /// child of a process that created a store, `mismatch` when ranks disagree. Of several processes
  /// with the environment of one rank (a rank and what it started) the first to create a
  /// `dist_sync_mpi` store is the rank; the others get `unsupported`, also after it has ended.
  ///
  /// `dist_sync_mpi` throws `timeout` when ranks do not come. It may be called again: the ranks
  /// that then call it make the store, though some gave up before. It throws `peer_lost`, naming
  /// the rank, when a rank on this machine ends, or is stopped for `heartbeat_timeout`. Under
  /// `scripts/launch.py` it throws that within seconds for a rank of the store that ends on any
  /// machine, with whatever status, before its own `create` or during it; the message has the
  /// host, and the exit code or the signal. Without that launcher
  /// - a rank that ends before its `create` is seen where all ranks run on one machine;
  /// - other machines hear of a lost rank as soon as a rank beside it has told them, which needs an
  ///   earlier `create` over these ranks, or that all have begun this one;
  /// - where no rank of the store is beside the lost one, or the launcher sets no PMIX_RANK, the
  ///   others notice nothing until the ranks are connected, and `create` throws `timeout`.
  ///
  /// A timeout between machines may be `internal`: the job must end. Nothing interrupts MPI_Init:
  /// where it would wait for a lost rank or longer than `create_timeout`, the process says for whom
  /// and ends with status 1.
  ///
  /// `dist_sync`, `dist_async` and their kin join the parameter-server job that DMLC_PS_ROOT_URI,
  /// DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER, DMLC_NUM_SERVER and TUTTI_JOB_KEY tell of, as
  /// `scripts/launch.py --mode ps` sets them, and block until all of it is there. They throw
  /// `invalid_argument` for what is missing there, `mismatch` when processes differ, `timeout` when
  /// some do not come, naming those. Under that launcher they throw `peer_lost` within seconds when
  /// a worker, a server or the scheduler ends, with whatever status, before all have come; the
  /// message has its host, and the exit code or the signal. They have no reduce_scatter, allgather,
  /// all_to_all and join; each says what to call instead.
  ///
  /// Such a job has one store after another. All workers create each of them, of whatever type they
  /// agree on, and it begins without keys and optimizer; servers that keep a state on the disk go
  /// on from what the store before left there. While this process has an open one `create` throws
  /// `invalid_argument` at once: close that one, or use it. `create` throws `peer_lost`, which
  /// names the worker, when another worker's process has ended since the store before. Scheduler
  /// and servers end when all workers' processes have ended.
  static std::unique_ptr<KVStore> create(std::string_view type);
  static std::unique_ptr<KVStore> create(std::string_view type, const Options& options);

  /// For `create` alone: Backend is not part of the API.
  explicit KVStore(std::unique_ptr<Backend> backend);
  /// Closes the store as `close` does, but throws nothing: where `close` would have thrown, a
  /// process that exits with status 0 ends with 1. Destroy a store before `main` returns, and never
  /// in a callback or a tensor's deleter: that ends the process.
  ///
  /// A process that exits with status 0 calls MPI_Finalize if tutti initialised MPI. There, whoever
  /// calls it, it waits until all ranks come, and says for whom after `stall_report_after`. A rank
  /// on this machine that has died, or is stopped for `heartbeat_timeout`, and any rank after
  /// `key_timeout`, is not waited for: the process ends at once with status 1. With another status
  /// than 0 it does not wait.
  ~KVStore();
  KVStore(const KVStore&) = delete;
  KVStore& operator=(const KVStore&) = delete;

  /// Closes the store. Tensors that have begun to move finish on every rank; other calls that need
  /// this rank fail with `aborted` on the other ranks. Blocks until then, in every thread that
  /// calls it. With `dist_sync_mpi` rank 0 waits until all ranks have closed theirs, and the first
  /// rank of each node until its node has; and where another thread is in a barrier or a join,
  /// that one ends first. Then methods that exchange or change something throw `aborted`.
  ///
  /// Throws what ended the store, such as `peer_lost`, if no other call has told it; the store is
  /// closed all the same. Throws `invalid_argument` in a callback or a tensor's deleter. Again, and
  /// in a forked child, it does nothing.
  void close();

  /// The type string asked for, lower-cased.
  const std::string& type() const;
  /// This process's index and the number of processes; 0 and 1 for stores of one process.
  int rank() const;
  int num_workers() const;
  /// This process's index among those on its machine, and their number; the machines' number. 0, 1
  /// and 1 for stores of one process. With a parameter server the workers alone are counted, and
  /// those whose hosts have one name are on one machine.
  int local_rank() const;
  int local_size() const;
  int nodes() const;

  /// Reduces over this process's devices and all ranks, and gives the result to every `outs`.
  /// `outs` may be `ins`. With `dist_sync_mpi` a key's list of `outs` may be empty on some ranks:
  /// those contribute and get nothing, as in a reduce to the others. A key may have another dtype
  /// and shape at each call, in every store type. Collective: every rank calls it once for the key,
  /// in any order among keys. Throws `duplicate_key` and `invalid_argument` at the call; a
  /// disagreement between ranks comes through the `Pending`. So does a `timeout`, to all ranks
  /// alike: nothing counts; all may call again.
  Pending pushpull(const Key& key, const Values& ins, const Values& outs, CallOptions options = {});
  Pending pushpull(const std::vector<Key>& keys, const std::vector<Values>& ins,
                   const std::vector<Values>& outs, CallOptions options = {});

  /// Gives the root's first value to every `values` of every rank. Collective; throws as pushpull
  /// does. In the parameter-server and local types it also stores that value under the key, in
  /// place of what was there, of whatever shape: unlike `init`, it may name a key that is known.
  Pending broadcast(const Key& key, const Values& values, int root_rank, CallOptions options = {});
  Pending broadcast(const std::vector<Key>& keys, const std::vector<Values>& values, int root_rank,
                    CallOptions options = {});

  // The two halves of a pushpull, for programs whose ranks keep a shard each, of the optimizer's
  // state for example. reduce_scatter followed by allgather gives the same bits as pushpull. Both
  // return at once, are collective and throw as pushpull does. In a store of one process the shard
  // is the whole tensor, and nothing is stored under the key.

  /// Reduces the `ins`, whole tensors, over this process's devices and all ranks, and gives every
  /// `outs` this rank's shard of the result: the elements `shard(in.count(), rank(),
  /// num_workers())` in row-major order. `outs` have the dtype of `ins`, that many elements
  /// (perhaps none), and any shape; `ins` have the same shape on all ranks. An output may be
  /// exactly this shard of an input. No rank gets the shard of a rank that has joined.
  Pending reduce_scatter(const Key& key, const Values& ins, const Values& outs,
                         CallOptions options = {});
  Pending reduce_scatter(const std::vector<Key>& keys, const std::vector<Values>& ins,
                         const std::vector<Values>& outs, CallOptions options = {});

  /// Puts the ranks' shards together and gives the whole tensor to every `outs` of every rank. Each
  /// rank brings its first `ins`: `shard(out.count(), rank(), num_workers())` elements, in any
  /// shape. `outs` have the same shape on all ranks. An input may be exactly this shard of an
  /// output. The elements travel unchanged, whatever `set_gradient_compression` says. Ends in
  /// `aborted`, naming the rank, when a rank has joined.
  Pending allgather(const Key& key, const Values& ins, const Values& outs,
                    CallOptions options = {});
  Pending allgather(const std::vector<Key>& keys, const std::vector<Values>& ins,
                    const std::vector<Values>& outs, CallOptions options = {});

  /// Sends every rank a share of `in`, and fills `out` with the shares that the ranks send to this
  /// one; a rank's share for itself is copied. `counts` says how large the shares are: its element
  /// s * num_workers() + r is the number of elements that rank s sends to rank r, perhaps 0. The
  /// shares lie one after the other, in `in` by receiver and in `out` by sender. So `in` has as
  /// many elements as row `rank()` has together, `out` as many as column `rank()`; both have the
  /// same dtype, any shape, and may be one tensor. Nothing moves that `counts` does not name, so a
  /// gather is a matrix with one column that is not 0, and a scatter one with one such row.
  ///
  /// Returns at once; `counts` is copied. Collective: all ranks pass the same dtype and the same
  /// matrix, else the `Pending` ends in `mismatch`; a rank that knows its own row alone gathers
  /// the others' by an `allgather`. Otherwise it throws as pushpull does. The elements travel
  /// unchanged, whatever `set_gradient_compression` says. Ends in `aborted`, naming the rank, when
  /// a rank has joined. Not offered by a parameter server.
  Pending all_to_all(const Key& key, const Tensor& in, const Tensor& out,
                     const std::vector<std::size_t>& counts, CallOptions options = {});

  /// Sends a tensor to one other rank, which calls `recv` for it. With `dist_sync_mpi` alone; the
  /// tensor is on the CPU. Not collective: the two ranks call it when they like, beside all other
  /// calls, in several threads if they want, and keys and their order have nothing to do with it.
  /// The first of several sends to one rank with one tag goes to the first `recv` there that takes
  /// it. The tensor may be of any shape; its elements travel unchanged.
  ///
  /// Both return at once, and their Pendings are done when the receiver has all elements: a send
  /// waits for its recv, as MPI_Issend does. Two ranks that each wait for their send before they
  /// call recv wait for each other. Until then the tensors are borrowed. They throw
  /// `invalid_argument` for a rank that there is not, for this rank itself and for a tag below 0.
  /// Through the `Pending` comes, naming the other rank,
  /// - `mismatch`, on both, when dtypes or numbers of elements differ; both have then been taken;
  /// - `timeout` when the other rank does not make its call within `key_timeout`. A call that ends
  ///   so keeps its place in the order: the send or recv of the other rank that belongs to it ends
  ///   in `timeout`, too, and takes nothing else. Both ranks must make their calls again;
  /// - `aborted` when one of the two closes the store before they have met. `close` waits for those
  ///   that have;
  /// - `internal` when they have met, but no element moves for `key_timeout`, and for a minute at
  ///   least. That ends the store;
  /// - `peer_lost` when any rank of the store is lost.
  Pending send(const Tensor& tensor, int to_rank, int tag = 0);
  /// Receives a tensor that one other rank sends: see `send`. From `any_rank` it takes the one with
  /// this tag that was announced to this rank first; `source`, unless it is null, is written before
  /// the Pending is done without an error, and lives until then. Where some rank has given up a
  /// send with this tag, such a recv ends in `timeout` and names that rank, before it takes what
  /// others send. After a recv from `any_rank` has ended in `timeout` by itself, the next send with
  /// its tag ends so, too, whichever rank makes it.
  Pending recv(const Tensor& tensor, int from_rank, int tag = 0, int* source = nullptr);

  // From here to num_dead_node: parameter-server and local types only, `unsupported` with
  // `dist_sync_mpi`.

  /// Stores a copy of each key's first value; with a parameter server worker 0's, and it blocks
  /// until every worker has called it. Throws `invalid_argument` if one of the keys has a value
  /// already; in a store of one process nothing is stored then, in others no such key.
  void init(const std::vector<Key>& keys, const std::vector<Values>& values);
  /// push replaces the stored value by the sum (or `op`) of all `values`; pull copies the stored
  /// value to every `outs`. Both throw `invalid_argument` for a key without a stored value, and for
  /// tensors of another dtype or shape than that. pushpull does both. It also changes the dtype and
  /// shape of the stored value to those of its tensors; without a stored value it only reduces.
  /// Once there is an optimizer, push and pushpull update the stored value by that sum instead, and
  /// pushpull, too, wants a stored value of the same dtype and shape.
  ///
  /// With a parameter server what is wrong comes through the `Pending`, on every worker alike. A
  /// key may be in flight several times: a worker's calls for it are done in their order, so a pull
  /// follows the worker's last push. `dist_sync` and its kin merge the n-th push of every worker,
  /// then update once. `dist_async` and its kin update by each push at once, whole, and need an
  /// optimizer; `average` divides each push by the number of workers, and min and max are those of
  /// one worker's devices.
  Pending push(const std::vector<Key>& keys, const std::vector<Values>& values,
               CallOptions options = {});
  Pending pull(const std::vector<Key>& keys, const std::vector<Values>& outs,
               CallOptions options = {});
  /// Copies some rows of the stored value to every `outs`, which have its dtype and shape; their
  /// other rows become zeros. A row is what one index of the first dimension selects. `row_ids`: by
  /// key, a tensor of any shape and dtype whose elements are whole numbers; a row may stand there
  /// several times, and there may be none. Only these rows travel. Blocks. Throws
  /// `invalid_argument` for a row that the value does not have, and as pull does.
  void row_sparse_pull(const std::vector<Key>& keys, const std::vector<Values>& outs,
                       const std::vector<Tensor>& row_ids);

  /// From now on the store updates its values by this rule. Called again with the same rule, it
  /// gives it new parameters, such as a learning rate, and keeps what the rule knows of each key.
  /// Throws `invalid_argument` for an unknown rule or parameter, a value out of range and a key of
  /// more than `Key::max_bytes`; then nothing has changed. With a parameter server every worker
  /// calls it with the same rule, and it blocks until they have; with `dist_async` until worker 0
  /// has, whose rule holds, or, once that has gone, the lowest worker that is there. A worker that
  /// gives another one gets a `mismatch`. A `timeout` comes to every worker, with `dist_async` to
  /// the one that waited; then nothing has changed, and those call again. Set lamb before a key's
  /// first init or broadcast: the servers then keep its value in one piece, whose norm it needs.
  void set_optimizer(const Optimizer& optimizer);
  /// Writes what the rule keeps of each key, its momentum for example, and with `dump_optimizer`
  /// the rule and its parameters, into a file. The file is replaced as a whole or not at all.
  /// Throws `invalid_argument` when there is no optimizer, `internal` when it cannot be written.
  /// With a parameter server it gathers the states of all servers, after this worker's own earlier
  /// calls, and blocks until then. Any worker may call it, one is enough, and each writes the file
  /// that it names; in `dist_sync` all files are equal where the workers have made the same calls.
  void save_optimizer_states(const std::string& path, bool dump_optimizer = false);
  /// Takes them from such a file; the optimizer too, if it is there. Throws `invalid_argument` for
  /// a file that is missing or damaged, and for the states of another rule; then nothing has
  /// changed. States of another model are found when their key is pushed. A file fits any number of
  /// servers, and stores of one process. With a parameter server every worker calls it, and it
  /// blocks until they have, with `dist_async` until worker 0 has. Worker 0's file is read; the
  /// others need none, and get its error, or that it has gone.
  void load_optimizer_states(const std::string& path);

  /// Nodes of the job (scheduler, servers and workers) that were lost since `create`; 0 in stores
  /// of one process. Does not block.
  int num_dead_node() const;

  /// The format in which f32 tensors travel between nodes: "none", "fp16" or "bf16". All ranks call
  /// it with the same value before the first tensor; later it throws `invalid_argument`. Keys that
  /// begin with "tutti:" do not count there in broadcast and allgather. With "fp16" a sum of a node
  /// above 65504 becomes infinite. A store of one process sends nothing: it takes "none" and throws
  /// `unsupported` for others.
  ///
  /// With a parameter server this is the format of gradients on their way to servers: of push and
  /// pushpull with sum or average. Everything else travels whole, and so does what comes back. It
  /// blocks until all workers have called it, who get a `mismatch` where they differ. There are
  /// also "2bit" and "1bit", for f32, f16 and bf16; other tensors are refused. Each worker adds a
  /// gradient to what it has not sent yet of the key, and takes off what it then sends: with "2bit"
  /// +threshold, -threshold or 0 for each element (16 times fewer bytes than f32), with "1bit" +1
  /// above the threshold, else -1 (32 times fewer). An element that is not finite makes the sum so,
  /// and nothing of it stays for the next push: with "2bit" it arrives as NaN, with "1bit" its part
  /// of the tensor travels whole. A push that fails may have sent a part, and keeps what it left
  /// for the next: pushing the gradient again counts that part twice. `threshold` is finite, and
  /// above 0 with "2bit", at least 0 with "1bit": `invalid_argument`. Other formats have none.
  void set_gradient_compression(std::string_view kind, double threshold = 0.5);

  /// Blocks until every rank has called it. Does not wait for tensors in flight. Throws `timeout`
  /// after `key_timeout` (a parameter server's: its scheduler's), naming the ranks that did not
  /// come.
  void barrier();
  /// For a rank that ran out of data. Until every rank has joined, it contributes the identity of
  /// the operation (0 to a sum) to what the others reduce, and `average` does not count it. Blocks
  /// until all have joined; returns the last rank to join.
  int join();

  /// A tensor in node-shared memory, exchanged without copies. Not collective. Blocks while the
  /// kernel clears the memory and joins it to huge pages: 0.5 to 3 ms a MiB. Throws `internal` when
  /// there is not enough memory, or the error that ended the store. The tensor may outlive the
  /// store. Other ranks write results into it; after a `peer_lost` they may do so for a moment
  /// longer.
  ///
  /// On a GPU it is memory of the device, with any contents, for types that take GPU tensors; else
  /// it throws `unsupported`.
  Tensor allocate(const Shape& shape, DType dtype, Device device = {});

  /// Does not block.
  Counters counters() const;
  /// Sizes, limits and policies that this store uses, with where each comes from (`tutti/info.h`);
  /// for people. None in stores of one process. Does not block.
  std::vector<Choice> choices() const;

 private:
  Pending submit(MethodCall call);
  Pending pass(const PeerRequest& request);
  void configure(const Setting& setting);

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<FrontDesk> front_desk_;
};

}  // namespace tutti
