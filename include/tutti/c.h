/* The C interface of tutti. It offers all that the C++ headers offer, to C99 and to languages that
 * call C.
 *
 * Each function does the same as the C++ method of the same name. The C++ headers describe shapes,
 * collective calls and threads in full.
 *
 * Handles: a handle, such as a `tutti_store *`, is opaque. The caller that gets a handle owns it,
 * and destroys it with the function of its type. To destroy a null pointer does nothing.
 *
 * Threads: the functions of `tutti_store`, `tutti_pending` and `tutti_bound` are thread-safe. Every
 * other handle is for one thread at a time.
 *
 * Blocking: a function blocks only if its comment says so. A collective call is over when every
 * rank has called it: either the function waits for that, or the outcome in its `tutti_pending`
 * does.
 *
 * Errors:
 * - A function that can fail returns a `tutti_code` as an int: TUTTI_OK or an error. If it returns
 *   an error, it has submitted nothing, changed no handle and written no result, and
 *   `tutti_last_error` on the same thread says more.
 * - A null pointer is TUTTI_INVALID_ARGUMENT, unless the comment of the function allows it.
 * - A function that returns a value returns an invalid one for a null handle: -1, 0 for a size, ""
 *   for a text, or null. `tutti_last_error` then says more, too.
 * - No function throws. If there is not enough memory, a function returns TUTTI_INTERNAL.
 * - Two functions may end the process: `tutti_store_create`, if MPI_Init would wait for a lost rank
 *   or for too long, and `tutti_store_destroy`, where the destructor of `tutti::KVStore` would end
 *   it. */
#ifndef TUTTI_C_H
#define TUTTI_C_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_store tutti_store;
typedef struct tutti_options tutti_options;
typedef struct tutti_tensor tutti_tensor;
typedef struct tutti_pending tutti_pending;
typedef struct tutti_bound tutti_bound;

/* The version, such as "0.1.0", and meson's build type, such as "release". The texts are never
 * freed. */
TUTTI_EXPORT const char* tutti_version(void);
TUTTI_EXPORT const char* tutti_build_type(void);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* The values of tutti::ErrorCode. tutti/error.h explains each of them. */
typedef enum tutti_code {
  TUTTI_OK = 0,
  TUTTI_INVALID_ARGUMENT,
  TUTTI_UNSUPPORTED,
  TUTTI_MISMATCH,
  TUTTI_DUPLICATE_KEY,
  TUTTI_TIMEOUT,
  TUTTI_PEER_LOST,
  TUTTI_ABORTED,
  TUTTI_INTERNAL
} tutti_code;

/* The name of a code: "ok", "invalid_argument", ... A number that is no code gives "unknown". */
TUTTI_EXPORT const char* tutti_code_name(int code);

/* The name of a tensor: the string `text`, or `integer` if `text` is null. */
typedef struct tutti_key {
  const char* text; /* ends with a null character */
  int64_t integer;
} tutti_key;

/* Describes the last failed call of this thread; within a callback, the error of the callback's
 * `tutti_pending`. */
typedef struct tutti_error {
  int code;            /* TUTTI_OK if nothing has failed yet */
  const char* message; /* one line, for people; "" if nothing has failed yet */
  int has_key;         /* whether the error is about exactly one key */
  tutti_key key;       /* the key, if `has_key` */
  const int* ranks;    /* the ranks that caused the error, ascending: see tutti::Error::ranks */
  size_t rank_count;   /* 0 if no rank is known */
} tutti_error;

/* Returns the last error of this thread, and never null. It is valid until the next failed call of
 * this thread; within a callback, until the callback returns. */
TUTTI_EXPORT const tutti_error* tutti_last_error(void);

/* ---- Options --------------------------------------------------------------------------------- */

/* The first function gives the default options. The second gives the options that the environment
 * sets, and fails for an unknown TUTTI_* variable. */
TUTTI_EXPORT int tutti_options_create(tutti_options** options);
TUTTI_EXPORT int tutti_options_from_env(tutti_options** options);
TUTTI_EXPORT void tutti_options_destroy(tutti_options* options);
/* Sets one field of tutti::Options (see tutti/options.h). `field` is its name, such as
 * "key_timeout". `value` has the form that the field's environment variable takes, such as "30". */
TUTTI_EXPORT int tutti_options_set(tutti_options* options, const char* field, const char* value);

/* ---- What the library chose ------------------------------------------------------------------ */

typedef struct tutti_fact {
  const char* name;   /* "part size" */
  const char* value;  /* "4M" */
  const char* origin; /* where a store's choice comes from: "job: 1 node", "program", ...; null for
                         other facts */
} tutti_fact;

/* A list of facts. `tutti_facts_destroy` frees it. */
typedef struct tutti_facts {
  const tutti_fact* facts;
  size_t count;
} tutti_facts;

TUTTI_EXPORT void tutti_facts_destroy(tutti_facts* facts);

/* The next functions are for people, bug reports and records. tutti/info.h describes them in
 * full. */

/* Tells how this library was built and what it found on this machine. Does not initialise MPI. */
TUTTI_EXPORT int tutti_build_info(tutti_facts** facts);
/* Tells about the CUDA driver, the GPUs and NCCL, and why one of them is missing. Initialises
 * CUDA. */
TUTTI_EXPORT int tutti_gpu_info(tutti_facts** facts);
/* Lists the environment variables that set options, each with the option's value in the form that
 * the variable takes. If `options` is null, it uses the options of the environment. */
TUTTI_EXPORT int tutti_options_describe(const tutti_options* options, tutti_facts** facts);
/* Gives the most bytes of buffers that a `dist_sync_mpi` store holds on one rank, with
 * `ranks_per_node` ranks on each of `nodes` nodes. If `options` is null, it uses the options of the
 * environment. */
TUTTI_EXPORT int tutti_most_buffer_bytes(const tutti_options* options, int ranks_per_node,
                                         int nodes, uint64_t* bytes);

/* ---- Tensors --------------------------------------------------------------------------------- */

typedef enum tutti_dtype {
  TUTTI_F16 = 0,
  TUTTI_BF16,
  TUTTI_F32,
  TUTTI_F64,
  TUTTI_I8,
  TUTTI_U8,
  TUTTI_I32,
  TUTTI_I64,
  TUTTI_B8, /* TUTTI_B8 to TUTTI_B128: any elements of so many bits, which are moved but not added
             */
  TUTTI_B16,
  TUTTI_B32,
  TUTTI_B64,
  TUTTI_B128
} tutti_dtype;

typedef enum tutti_device_kind { TUTTI_CPU = 0, TUTTI_GPU } tutti_device_kind;

typedef struct tutti_device {
  int kind; /* tutti_device_kind */
  int index;
} tutti_device;

/* A function that gives back the memory of a tensor; see `tutti_tensor_create`. */
typedef void (*tutti_release)(void* context);

/* Creates a tensor over memory of the caller: a contiguous, row-major array of `rank` dimensions. A
 * `rank` of 0 makes a scalar.
 *
 * If `release` is null, the caller keeps the memory alive until every call that uses the tensor is
 * done. Otherwise tutti calls `release(context)` once, on any thread: when the handle is destroyed
 * and no call uses the tensor any more, or when this function fails.
 *
 * `release`:
 * - may submit calls and ask the store anything;
 * - must not wait for a call, and must not close or destroy the store;
 * - may take a lock that the program holds while it submits, but no lock that the program holds
 *   while it waits for the same call. */
TUTTI_EXPORT int tutti_tensor_create(void* data, const int64_t* dims, size_t rank, int dtype,
                                     tutti_device device, tutti_release release, void* context,
                                     tutti_tensor** tensor);
/* Destroys the handle. Calls in flight keep the memory that they need. */
TUTTI_EXPORT void tutti_tensor_destroy(tutti_tensor* tensor);
/* Sets the tensor's stream, a `cudaStream_t` or `CUstream`. Later calls read and write the tensor
 * only after the work that is in the stream at the time of the call, as with `Tensor::on`. If a
 * tensor has no stream, the program must wait for all such work before a call.
 *
 * Null and (void*)1 are CUDA's legacy default stream, and (void*)2 is the default stream of the
 * calling thread. TUTTI_INVALID_ARGUMENT if the tensor is not on a GPU. */
TUTTI_EXPORT int tutti_tensor_set_stream(tutti_tensor* tensor, void* stream);
/* Copies all elements of `from` to `to`, which has the same dtype and shape. Each of the two is on
 * the CPU or on the same GPU. The copy begins after the work in the tensors' streams. Blocks until
 * the copy is done. */
TUTTI_EXPORT int tutti_tensor_copy(const tutti_tensor* from, const tutti_tensor* to);
TUTTI_EXPORT void* tutti_tensor_data(const tutti_tensor* tensor);
/* Returns the dimensions, which live as long as the handle, and writes their number to `rank`.
 * `rank` may be null. */
TUTTI_EXPORT const int64_t* tutti_tensor_dims(const tutti_tensor* tensor, size_t* rank);
TUTTI_EXPORT int tutti_tensor_dtype(const tutti_tensor* tensor);
/* Returns {-1, -1} for a null pointer. */
TUTTI_EXPORT tutti_device tutti_tensor_device(const tutti_tensor* tensor);
/* The number of elements, and of bytes. */
TUTTI_EXPORT size_t tutti_tensor_count(const tutti_tensor* tensor);
TUTTI_EXPORT size_t tutti_tensor_bytes(const tutti_tensor* tensor);

/* The tensors of one key in a call: one tensor, or one tensor for each device of this process. */
typedef struct tutti_values {
  const tutti_tensor* const* tensors;
  size_t count;
} tutti_values;

/* ---- The store ------------------------------------------------------------------------------- */

/* Creates a store. If `options` is null, it uses the options of the environment.
 *
 * - `dist_sync_mpi`: collective and blocking. The first store of a process starts MPI, unless the
 *   program has done so. Starting MPI waits for every rank of the job, even if the option `ranks`
 *   names only some of them.
 * - Parameter server: blocks until every process of the job is there.
 *
 * TUTTI_TIMEOUT if some ranks or processes do not come. TUTTI_MISMATCH if they disagree.
 * KVStore::create lists all errors. */
TUTTI_EXPORT int tutti_store_create(const char* type, const tutti_options* options,
                                    tutti_store** store);
/* Closes the store, and blocks until it is closed. With `dist_sync_mpi`, rank 0 waits until all
 * ranks have closed their stores. If the store had ended by an error that no call has returned yet,
 * this function returns that error. TUTTI_INVALID_ARGUMENT in a callback or a `release`. The caller
 * must still destroy the store. */
TUTTI_EXPORT int tutti_store_close(tutti_store* store);
/* Closes the store, blocks until it is closed, and destroys it. No other thread may use the store
 * meanwhile. In a callback or a `release` this call ends the process. */
TUTTI_EXPORT void tutti_store_destroy(tutti_store* store);

/* The type that was passed to `tutti_store_create`, in lower case. The text lives as long as the
 * store. */
TUTTI_EXPORT const char* tutti_store_type(const tutti_store* store);
TUTTI_EXPORT int tutti_store_rank(const tutti_store* store);
TUTTI_EXPORT int tutti_store_num_workers(const tutti_store* store);
/* This process's index among the processes on its machine, their number, and the number of
 * machines. With a parameter server these count workers alone. Processes are on one machine if they
 * share its boot and its network name space; the names of hosts do not matter. */
TUTTI_EXPORT int tutti_store_local_rank(const tutti_store* store);
TUTTI_EXPORT int tutti_store_local_size(const tutti_store* store);
TUTTI_EXPORT int tutti_store_nodes(const tutti_store* store);

typedef enum tutti_reduce_op { TUTTI_SUM = 0, TUTTI_AVERAGE, TUTTI_MIN, TUTTI_MAX } tutti_reduce_op;

/* Choices for one call. If all fields are 0, they have their defaults. */
typedef struct tutti_call_options {
  int priority; /* a higher priority goes first */
  int op;       /* tutti_reduce_op */
} tutti_call_options;

/* The next calls take `count` keys, and lists with as many entries. `options` may be null. The
 * calls return at once, except for tutti_store_allreduce.
 *
 * The call writes a handle for its outcome to `*pending`. `pending` may be null if the program does
 * not wait for the outcome.
 *
 * The outputs of one call must not overlap in memory: TUTTI_INVALID_ARGUMENT. tutti does not
 * compare the outputs of two calls in flight.
 *
 * The call itself returns the errors that this rank sees alone:
 * - TUTTI_INVALID_ARGUMENT;
 * - TUTTI_DUPLICATE_KEY for a key that is in flight or stands twice in the call (KVStore says in
 *   which types);
 * - TUTTI_UNSUPPORTED if the store's type does not have the call, and in a forked child;
 * - TUTTI_ABORTED if the store is closed, and the error that ended the store, if one did.
 *
 * The outcome has the errors that involve other ranks, such as TUTTI_MISMATCH, TUTTI_TIMEOUT and
 * TUTTI_PEER_LOST. */

/* Collective. Reduces a key's `ins` over this process's devices and over all ranks, and writes the
 * result to each of its `outs`. `outs` may be the same tensors as `ins`. */
TUTTI_EXPORT int tutti_store_pushpull(tutti_store* store, size_t count, const tutti_key* keys,
                                      const tutti_values* ins, const tutti_values* outs,
                                      const tutti_call_options* options, tutti_pending** pending);
/* Does the same, and waits for it: blocks until every rank has made its call for the keys, and
 * returns the outcome. That takes less time than to wait for the `pending` of a pushpull. In a
 * callback or a `release` it is TUTTI_INVALID_ARGUMENT. */
TUTTI_EXPORT int tutti_store_allreduce(tutti_store* store, size_t count, const tutti_key* keys,
                                       const tutti_values* ins, const tutti_values* outs,
                                       const tutti_call_options* options);
/* Settles the arguments of a pushpull that the program will make again and again by
 * `tutti_bound_start` or `tutti_bound_run`. Not collective: it checks the arguments, and submits
 * nothing. TUTTI_INVALID_ARGUMENT and TUTTI_UNSUPPORTED as with a pushpull of the same arguments,
 * and with `dist_sync_mpi` TUTTI_DUPLICATE_KEY for a key that stands twice in `keys`.
 *
 * The binding keeps the tensors, so their handles may be destroyed. Memory of the caller must live
 * until the binding is destroyed and its last call is done. */
TUTTI_EXPORT int tutti_store_bind(tutti_store* store, size_t count, const tutti_key* keys,
                                  const tutti_values* ins, const tutti_values* outs,
                                  const tutti_call_options* options, tutti_bound** bound);
/* Collective. Writes the first value of rank `root_rank` to every value of every rank, and ignores
 * `op`. All types but `dist_sync_mpi` also store the value under the key. */
TUTTI_EXPORT int tutti_store_broadcast(tutti_store* store, size_t count, const tutti_key* keys,
                                       const tutti_values* values, int root_rank,
                                       const tutti_call_options* options, tutti_pending** pending);
/* Collective. Reduces as pushpull does, and writes this rank's shard of the result to each of a
 * key's `outs`. `tutti_shard` gives the elements of the shard. TUTTI_UNSUPPORTED with a parameter
 * server. */
TUTTI_EXPORT int tutti_store_reduce_scatter(tutti_store* store, size_t count, const tutti_key* keys,
                                            const tutti_values* ins, const tutti_values* outs,
                                            const tutti_call_options* options,
                                            tutti_pending** pending);
/* Collective. Puts the ranks' shards together, and writes the whole tensor to each of a key's
 * `outs`. Each rank contributes the first of its `ins`. The outcome is TUTTI_ABORTED if a rank has
 * joined. TUTTI_UNSUPPORTED with a parameter server. */
TUTTI_EXPORT int tutti_store_allgather(tutti_store* store, size_t count, const tutti_key* keys,
                                       const tutti_values* ins, const tutti_values* outs,
                                       const tutti_call_options* options, tutti_pending** pending);
/* Collective. Sends each rank its share of `in`, and fills `out` with the shares that the ranks
 * send to this rank. The shares lie one after the other, in `in` ordered by receiver and in `out`
 * ordered by sender. Rank s sends counts[s * num_workers + r] elements to rank r. tutti copies
 * `counts`. All ranks pass the same counts; otherwise the outcome is TUTTI_MISMATCH. Fails as
 * allgather does. */
TUTTI_EXPORT int tutti_store_all_to_all(tutti_store* store, tutti_key key, const tutti_tensor* in,
                                        const tutti_tensor* out, const size_t* counts,
                                        size_t count_of_counts, const tutti_call_options* options,
                                        tutti_pending** pending);
/* Replaces a key's stored value by the sum (or by the result of `op`) of its `values`. Once the
 * store has an optimizer, push uses that sum as a gradient: it updates the stored value by it.
 * Collective in the synchronous types of a parameter server, which merge the n-th push of every
 * worker. TUTTI_UNSUPPORTED with `dist_sync_mpi`.
 *
 * TUTTI_INVALID_ARGUMENT if the key has no stored value, or one of another dtype or shape. With a
 * parameter server this error is in the outcome. */
TUTTI_EXPORT int tutti_store_push(tutti_store* store, size_t count, const tutti_key* keys,
                                  const tutti_values* values, const tutti_call_options* options,
                                  tutti_pending** pending);
/* Copies a key's stored value to each of its `outs`. Not collective. Fails as push does. */
TUTTI_EXPORT int tutti_store_pull(tutti_store* store, size_t count, const tutti_key* keys,
                                  const tutti_values* outs, const tutti_call_options* options,
                                  tutti_pending** pending);

/* Pass this as the rank of `tutti_store_recv` to receive from any other rank. */
#define TUTTI_ANY_RANK (-1)

/* Sends a tensor to one other rank, which calls `tutti_store_recv` for it with the same tag, dtype
 * and number of elements. The tensor is on the CPU, and has any shape. Only `dist_sync_mpi` has
 * these two calls. They are not collective. KVStore::send describes them in full.
 *
 * Both calls return at once. Both outcomes come when the receiver has all elements. An outcome may
 * also be TUTTI_MISMATCH or TUTTI_TIMEOUT, which come to both ranks, TUTTI_ABORTED, TUTTI_PEER_LOST
 * or TUTTI_INTERNAL. After a TUTTI_TIMEOUT both ranks must make their calls again.
 *
 * The calls return TUTTI_INVALID_ARGUMENT if the rank does not exist or is this rank itself, and
 * for a tag below 0. They return TUTTI_UNSUPPORTED for other store types, and for a tensor on a
 * GPU. `pending` may be null. */
TUTTI_EXPORT int tutti_store_send(tutti_store* store, const tutti_tensor* tensor, int to_rank,
                                  int tag, tutti_pending** pending);
/* Receives a tensor from `from_rank`, which may be TUTTI_ANY_RANK. Unless `source` is null, tutti
 * writes the sender's rank to it; `source` must live until the call is done. */
TUTTI_EXPORT int tutti_store_recv(tutti_store* store, const tutti_tensor* tensor, int from_rank,
                                  int tag, int* source, tutti_pending** pending);

/* The next functions return when they are done. With `dist_sync_mpi`, all of them up to
 * tutti_store_num_dead_node are TUTTI_UNSUPPORTED, except for
 * tutti_store_set_gradient_compression. */

/* Stores a copy of each key's first value. With a parameter server it is collective: it stores
 * worker 0's value, and blocks until every worker has called it. TUTTI_INVALID_ARGUMENT if a key
 * already has a value. */
TUTTI_EXPORT int tutti_store_init(tutti_store* store, size_t count, const tutti_key* keys,
                                  const tutti_values* values);
/* Copies some rows of a key's stored value to each of its `outs`, and fills their other rows with
 * zeros. The key's entry of `row_ids` names the rows. Not collective. Blocks until the rows are
 * there. TUTTI_INVALID_ARGUMENT for a row that the value does not have. Otherwise fails as pull
 * does. */
TUTTI_EXPORT int tutti_store_row_sparse_pull(tutti_store* store, size_t count,
                                             const tutti_key* keys, const tutti_values* outs,
                                             const tutti_tensor* const* row_ids);

typedef struct tutti_parameter {
  const char* name; /* "learning_rate", "momentum", ... */
  double value;
} tutti_parameter;

/* Factors for one key. Its learning rate is `learning_rate` times the rule's, and its weight decay
 * is `wd` times the rule's. */
typedef struct tutti_factors {
  tutti_key key;
  double learning_rate;
  double wd;
} tutti_factors;

/* An update rule. tutti/optimizer.h lists the names and parameters. A list without entries may be
 * null. */
typedef struct tutti_optimizer {
  const char* name;
  const tutti_parameter* parameters;
  size_t parameter_count;
  const tutti_factors* factors;
  size_t factor_count;
} tutti_optimizer;

/* From now on the store updates its values by this rule. With a parameter server it is collective,
 * and blocks until every worker has called it; with asynchronous types until worker 0 has, or, once
 * worker 0 has left or is lost, the lowest of the other workers.
 *
 * TUTTI_INVALID_ARGUMENT for an unknown rule or parameter, and for a value out of range.
 * TUTTI_MISMATCH if workers pass different rules. */
TUTTI_EXPORT int tutti_store_set_optimizer(tutti_store* store, const tutti_optimizer* optimizer);
/* Writes the rule's state of each key, such as its momentum, to a file. Unless `dump_optimizer` is
 * 0, it also writes the rule. Not collective: one worker is enough. Blocks until the file is
 * written. TUTTI_INVALID_ARGUMENT if there is no optimizer. TUTTI_INTERNAL if it cannot write the
 * file. */
TUTTI_EXPORT int tutti_store_save_optimizer_states(tutti_store* store, const char* path,
                                                   int dump_optimizer);
/* Loads the states from a file of tutti_store_save_optimizer_states. With a parameter server it is
 * collective, and blocks until every worker has called it; with asynchronous types until worker 0
 * has. Only worker 0 reads its file. If it cannot, all workers get that error.
 * TUTTI_INVALID_ARGUMENT if the file is missing or damaged, or has the states of another rule. */
TUTTI_EXPORT int tutti_store_load_optimizer_states(tutti_store* store, const char* path);
/* Sets the format in which tensors travel: "none", "fp16" or "bf16"; with a parameter server also
 * "2bit" and "1bit", which use `threshold`. KVStore::set_gradient_compression describes them.
 *
 * Every rank calls it with the same value before its first tensor; later it is
 * TUTTI_INVALID_ARGUMENT. With a parameter server it is collective, and blocks until every worker
 * has called it; TUTTI_MISMATCH if they pass different formats. With "2bit" and "1bit", if one
 * input element is NaN or infinite, so is that element of the sum, and nothing of it is carried
 * over to the next push. */
TUTTI_EXPORT int tutti_store_set_gradient_compression(tutti_store* store, const char* kind,
                                                      double threshold);
/* Writes to `*count` how many processes of the job (scheduler, servers and workers) were lost. */
TUTTI_EXPORT int tutti_store_num_dead_node(tutti_store* store, int* count);
/* Collective. Blocks until every rank has called it. It promises nothing about tensors in flight,
 * which may still move when it returns: wait for their pendings. */
TUTTI_EXPORT int tutti_store_barrier(tutti_store* store);
/* Collective. A rank that has run out of data calls this. Until all ranks have joined, it adds
 * nothing to what the other ranks reduce, and an average does not count it. Blocks until all ranks
 * have joined. Writes the last rank to join to `last`, which may be null. TUTTI_UNSUPPORTED with a
 * parameter server. */
TUTTI_EXPORT int tutti_store_join(tutti_store* store, int* last);
/* Allocates a tensor in memory that the ranks of a node share. The tensor may outlive the store.
 * Not collective. Blocks while the kernel clears the memory. TUTTI_INTERNAL if there is not enough
 * memory. */
TUTTI_EXPORT int tutti_store_allocate(tutti_store* store, const int64_t* dims, size_t rank,
                                      int dtype, tutti_tensor** tensor);
/* Does what tutti_store_allocate does, on a device. On a GPU the tensor is memory of the device,
 * with undefined contents. TUTTI_UNSUPPORTED for a GPU if the store takes no tensors on a GPU. */
TUTTI_EXPORT int tutti_store_allocate_on(tutti_store* store, const int64_t* dims, size_t rank,
                                         int dtype, tutti_device device, tutti_tensor** tensor);

/* The fields of tutti::Counters. tutti/counters.h explains each of them. */
typedef struct tutti_counters {
  uint64_t tensors_reduced;
  uint64_t bytes_reduced;
  uint64_t tensors_broadcast;
  uint64_t bytes_broadcast;
  uint64_t tensors_gathered;
  uint64_t bytes_gathered;
  uint64_t batches;
  uint64_t control_messages;
  uint64_t bytes_between_nodes;
  uint64_t nodes;
  uint64_t buffer_bytes;
  uint64_t allocated_bytes;
  uint64_t allocated_peak_bytes;
} tutti_counters;

/* Reads the counters. `size` is sizeof(tutti_counters). If the library has more counters than the
 * program knows, it leaves the others out; if it has fewer, it sets the rest to 0. */
TUTTI_EXPORT int tutti_store_counters(const tutti_store* store, tutti_counters* counters,
                                      size_t size);
/* Lists the sizes, limits and policies that this store uses, and where each comes from. For people
 * to read. The list is empty in stores of one process. */
TUTTI_EXPORT int tutti_store_choices(const tutti_store* store, tutti_facts** facts);

/* Gives the shard of `rank` when `size` ranks share `count` elements in a reduce_scatter: the
 * elements [*begin, *end). */
TUTTI_EXPORT int tutti_shard(size_t count, int rank, int size, size_t* begin, size_t* end);

/* ---- Bound calls ----------------------------------------------------------------------------- */

/* Collective. Submits the call of the binding, as tutti_store_pushpull does, and returns at once.
 * `pending` may be null: the program may call `tutti_bound_wait` instead. After an error the
 * program may start the call again:
 * - TUTTI_DUPLICATE_KEY, with `dist_sync_mpi`: one of the keys is in flight, be it by an earlier
 *   start of this binding;
 * - TUTTI_ABORTED: the store is closed or destroyed;
 * - TUTTI_UNSUPPORTED in a forked child;
 * - the error that ended the store, if one did. */
TUTTI_EXPORT int tutti_bound_start(tutti_bound* bound, tutti_pending** pending);
/* Blocks until the call of the last `tutti_bound_start` or `tutti_bound_run` is done, and returns
 * that call's error, as `tutti_pending_wait` does. If there was no start yet, it returns TUTTI_OK.
 */
TUTTI_EXPORT int tutti_bound_wait(const tutti_bound* bound);
/* Collective. Starts the call and waits for it, as tutti_store_allreduce does. That takes less time
 * than tutti_bound_start and tutti_bound_wait. In a callback or a `release` it is
 * TUTTI_INVALID_ARGUMENT. */
TUTTI_EXPORT int tutti_bound_run(tutti_bound* bound);
/* Destroys the handle, before or after the store. A call in flight goes on. */
TUTTI_EXPORT void tutti_bound_destroy(tutti_bound* bound);

/* ---- Outcomes -------------------------------------------------------------------------------- */

/* Blocks until the call is done, and returns the call's own error, every time.
 * TUTTI_INVALID_ARGUMENT in a callback, unless the call is done already. */
TUTTI_EXPORT int tutti_pending_wait(const tutti_pending* pending);
/* Like `tutti_pending_wait`, but waits for at most `seconds`; 0 does not wait. Writes to `*done`
 * whether the call is done, also when it returns the call's own error. If the call is not done, it
 * returns TUTTI_OK. */
TUTTI_EXPORT int tutti_pending_wait_for(const tutti_pending* pending, double seconds, int* done);
/* Makes a stream, instead of this thread, wait for the call: work that the program enqueues in the
 * stream later finds the results. `stream` is as in `tutti_tensor_set_stream`. Blocks until the
 * last copy to an output on a GPU is issued; with outputs on the CPU, until the call is done.
 * TUTTI_INVALID_ARGUMENT in a callback, and while the program captures the stream as a graph. */
TUTTI_EXPORT int tutti_pending_wait_on(const tutti_pending* pending, void* stream);
/* Whether the call is done: 1 or 0. Returns -1 for a null pointer. */
TUTTI_EXPORT int tutti_pending_done(const tutti_pending* pending);

/* A function that is called when a call is done. `error` is null if the call succeeded. Otherwise
 * it is valid until the callback returns. */
typedef void (*tutti_callback)(void* context, const tutti_error* error);

/* Calls `callback` once: on the store's communication thread, or at once on this thread if the call
 * is already done. A callback may submit calls, but must not wait for a call or destroy the store.
 * It should be short, because the communication thread moves nothing while it runs.
 * TUTTI_UNSUPPORTED in a forked child if the call is not done. */
TUTTI_EXPORT int tutti_pending_then(const tutti_pending* pending, tutti_callback callback,
                                    void* context);
/* Destroys the handle; the call goes on. If the call fails and nobody has waited for it, tutti logs
 * the error. */
TUTTI_EXPORT void tutti_pending_destroy(tutti_pending* pending);

#ifdef __cplusplus
}
#endif

#endif
