/* The C interface of tutti: what the C++ headers offer, for C99 and for languages that call C.
 *
 * Handles (`tutti_store *` and the like) are opaque. Whoever gets one owns it and destroys it with
 * the function of its type; destroying a null pointer does nothing. A handle is used by one thread
 * at a time, except for `tutti_store` and `tutti_pending`, whose functions are thread-safe.
 *
 * Functions that can fail return a `tutti_code` as an int: TUTTI_OK, or what went wrong. Then they
 * have submitted nothing, changed no handle and written no result, and `tutti_last_error` of the
 * same thread says more. A null pointer is TUTTI_INVALID_ARGUMENT unless a comment allows it.
 * Functions that return what they are asked for answer a null handle with what is no answer (-1; 0
 * for a size; "" for a text; else null), and `tutti_last_error` says more, too. No function throws,
 * also not for want of memory, which is TUTTI_INTERNAL. None ends the process, but
 * `tutti_store_create` where MPI_Init would wait for a lost rank or for too long, and
 * `tutti_store_destroy` where `tutti::KVStore`'s destructor does.
 *
 * Each function does what the method of the same name does in the C++ headers, where shapes,
 * collective calls and threads are told in full. A collective call waits, or its outcome does,
 * until every rank has called it. Only functions of which it is said here block. */
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

/* "0.1.0", and meson's build type. Never freed. */
TUTTI_EXPORT const char* tutti_version(void);
TUTTI_EXPORT const char* tutti_build_type(void);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* The values of tutti::ErrorCode (tutti/error.h), where each is explained. */
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

/* "ok", "invalid_argument", ...; "unknown" for what is no code. */
TUTTI_EXPORT const char* tutti_code_name(int code);

/* A tensor's name: the string if `text` is not null, else the integer. */
typedef struct tutti_key {
  const char* text; /* ends with a null character */
  int64_t integer;
} tutti_key;

/* What is known about the last failed call of this thread, or about a `tutti_pending`'s error
 * within its callback. */
typedef struct tutti_error {
  int code;            /* TUTTI_OK when nothing has failed yet */
  const char* message; /* one line, for people; "" when nothing has failed yet */
  int has_key;         /* whether the error is about one key: */
  tutti_key key;       /* that key */
  const int* ranks;    /* the ranks that are to blame or are missing, ascending; for `mismatch`
                          those that differ from the lowest rank */
  size_t rank_count;   /* 0: none is known */
} tutti_error;

/* Never null. Valid until this thread's next failed call, or until the callback returns. */
TUTTI_EXPORT const tutti_error* tutti_last_error(void);

/* ---- Options --------------------------------------------------------------------------------- */

/* The defaults, and what the environment says (an error for an unknown TUTTI_* variable). */
TUTTI_EXPORT int tutti_options_create(tutti_options** options);
TUTTI_EXPORT int tutti_options_from_env(tutti_options** options);
TUTTI_EXPORT void tutti_options_destroy(tutti_options* options);
/* Sets a field of tutti::Options (tutti/options.h) by its name, such as "key_timeout", to what its
 * environment variable would say, such as "30". */
TUTTI_EXPORT int tutti_options_set(tutti_options* options, const char* field, const char* value);

/* ---- What the library chose ------------------------------------------------------------------ */

typedef struct tutti_fact {
  const char* name;   /* "part size" */
  const char* value;  /* "4M" */
  const char* origin; /* of a store's choice: "job: 1 node", "program", ...; else null */
} tutti_fact;

/* A list of facts, which `tutti_facts_destroy` frees. */
typedef struct tutti_facts {
  const tutti_fact* facts;
  size_t count;
} tutti_facts;

TUTTI_EXPORT void tutti_facts_destroy(tutti_facts* facts);

/* These are for people, bug reports and records; tutti/info.h tells more of each. */

/* How this library was built and what it found on this machine. Does not initialise MPI. */
TUTTI_EXPORT int tutti_build_info(tutti_facts** facts);
/* The CUDA driver, the GPUs and NCCL, or why there is none. Initialises CUDA. */
TUTTI_EXPORT int tutti_gpu_info(tutti_facts** facts);
/* Each environment variable that sets an option, and the option's value as the variable takes it.
 * `options` may be null: then the environment's. */
TUTTI_EXPORT int tutti_options_describe(const tutti_options* options, tutti_facts** facts);
/* The most bytes of buffers that a `dist_sync_mpi` store holds on one rank, with so many ranks on
 * each of so many nodes. `options` may be null: then the environment's. */
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
  TUTTI_B8, /* to TUTTI_B128: so many bits, only moved, such as booleans and complex numbers */
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

/* Gives back memory that was lent with a tensor; see `tutti_tensor_create`. */
typedef void (*tutti_release)(void* context);

/* A contiguous, row-major array of `rank` dimensions (0: a scalar), over memory of the caller's.
 * With a null `release` the caller keeps the memory alive until every call that uses the tensor is
 * done. Else tutti calls `release(context)` once, when the handle is destroyed and no call uses the
 * tensor any more, or when this function fails; on any thread. It may submit calls and ask the
 * store anything, but not wait for a call, nor close or destroy the store. It may take a lock that
 * the program holds while it submits, but none that is held in a wait for the same call. */
TUTTI_EXPORT int tutti_tensor_create(void* data, const int64_t* dims, size_t rank, int dtype,
                                     tutti_device device, tutti_release release, void* context,
                                     tutti_tensor** tensor);
/* Calls in flight keep what they need. */
TUTTI_EXPORT void tutti_tensor_destroy(tutti_tensor* tensor);
/* The `cudaStream_t` or `CUstream` whose work comes before reads and writes of this tensor in the
 * calls that follow: as `Tensor::on`. Null and (void*)1 are CUDA's legacy default stream, (void*)2
 * is the calling thread's. Without one the program has waited for all such work before a call.
 * TUTTI_INVALID_ARGUMENT for a tensor that is not on a GPU. */
TUTTI_EXPORT int tutti_tensor_set_stream(tutti_tensor* tensor, void* stream);
/* Copies all elements to a tensor of the same dtype and shape, between any of the CPU and one GPU,
 * after the work in their streams. Blocks until that is done. */
TUTTI_EXPORT int tutti_tensor_copy(const tutti_tensor* from, const tutti_tensor* to);
TUTTI_EXPORT void* tutti_tensor_data(const tutti_tensor* tensor);
/* The dimensions live as long as the handle. `rank` may be null. */
TUTTI_EXPORT const int64_t* tutti_tensor_dims(const tutti_tensor* tensor, size_t* rank);
TUTTI_EXPORT int tutti_tensor_dtype(const tutti_tensor* tensor);
/* {-1, -1} for a null pointer. */
TUTTI_EXPORT tutti_device tutti_tensor_device(const tutti_tensor* tensor);
/* Elements and bytes. */
TUTTI_EXPORT size_t tutti_tensor_count(const tutti_tensor* tensor);
TUTTI_EXPORT size_t tutti_tensor_bytes(const tutti_tensor* tensor);

/* What one key carries in a call: one tensor, or one for each device of this process. */
typedef struct tutti_values {
  const tutti_tensor* const* tensors;
  size_t count;
} tutti_values;

/* ---- The store ------------------------------------------------------------------------------- */

/* `options` may be null: then the environment's. Collective and blocking for `dist_sync_mpi`; the
 * first store of a process starts MPI, if nobody has, which waits for every rank of the job, also
 * where the option `ranks` names some of them. With a parameter server it blocks until all of the
 * job is there. TUTTI_TIMEOUT when some do not come, TUTTI_MISMATCH when they disagree. */
TUTTI_EXPORT int tutti_store_create(const char* type, const tutti_options* options,
                                    tutti_store** store);
/* Closes the store, blocks until then, and fails with what ended the store if no call has told it.
 * With `dist_sync_mpi` rank 0 waits for all ranks to close theirs. TUTTI_INVALID_ARGUMENT in a
 * callback or a `release`. It is to be destroyed all the same. */
TUTTI_EXPORT int tutti_store_close(tutti_store* store);
/* Closes the store, and blocks until then. No other thread may use it. In a callback or a `release`
 * it ends the process. */
TUTTI_EXPORT void tutti_store_destroy(tutti_store* store);

/* The type as asked for, in lower case; lives as long as the store. */
TUTTI_EXPORT const char* tutti_store_type(const tutti_store* store);
TUTTI_EXPORT int tutti_store_rank(const tutti_store* store);
TUTTI_EXPORT int tutti_store_num_workers(const tutti_store* store);
/* Among the processes on this machine, and how many machines there are; with a parameter server
 * among its workers, by the names of their hosts. */
TUTTI_EXPORT int tutti_store_local_rank(const tutti_store* store);
TUTTI_EXPORT int tutti_store_local_size(const tutti_store* store);
TUTTI_EXPORT int tutti_store_nodes(const tutti_store* store);

typedef enum tutti_reduce_op { TUTTI_SUM = 0, TUTTI_AVERAGE, TUTTI_MIN, TUTTI_MAX } tutti_reduce_op;

/* Choices of one call. All zero is the default. */
typedef struct tutti_call_options {
  int priority; /* higher goes first */
  int op;       /* tutti_reduce_op */
} tutti_call_options;

/* The calls below take `count` keys and as many entries of each list. `options` may be null. They
 * return at once; `pending` gets a handle on the outcome, or may be null: then nobody waits.
 * Outputs of one call must not overlap in memory: TUTTI_INVALID_ARGUMENT. Those of two calls in
 * flight are not compared. They return what this rank sees alone: TUTTI_INVALID_ARGUMENT,
 * TUTTI_DUPLICATE_KEY for a key in flight, TUTTI_UNSUPPORTED for a type that has no such call and
 * in a forked child, TUTTI_ABORTED once the store is closed, or what ended it. What comes of the
 * other ranks, such as TUTTI_MISMATCH, TUTTI_TIMEOUT and TUTTI_PEER_LOST, is the outcome's. */

/* Collective. Reduces a key's `ins` over this process's devices and all ranks, and gives the result
 * to every one of its `outs`, which may be `ins`. */
TUTTI_EXPORT int tutti_store_pushpull(tutti_store* store, size_t count, const tutti_key* keys,
                                      const tutti_values* ins, const tutti_values* outs,
                                      const tutti_call_options* options, tutti_pending** pending);
/* Collective. Gives the first value of rank `root_rank` to every value of every rank; `op` means
 * nothing. All types but `dist_sync_mpi` store it under the key, too. */
TUTTI_EXPORT int tutti_store_broadcast(tutti_store* store, size_t count, const tutti_key* keys,
                                       const tutti_values* values, int root_rank,
                                       const tutti_call_options* options, tutti_pending** pending);
/* Collective. Reduces as pushpull does, and gives every one of a key's `outs` this rank's shard of
 * the result, as `tutti_shard` says it. TUTTI_UNSUPPORTED with a parameter server. */
TUTTI_EXPORT int tutti_store_reduce_scatter(tutti_store* store, size_t count, const tutti_key* keys,
                                            const tutti_values* ins, const tutti_values* outs,
                                            const tutti_call_options* options,
                                            tutti_pending** pending);
/* Collective. Puts the ranks' shards, of each rank its first `ins`, together, and gives the whole
 * to every one of a key's `outs`. Ends in TUTTI_ABORTED when a rank has joined. TUTTI_UNSUPPORTED
 * with a parameter server. */
TUTTI_EXPORT int tutti_store_allgather(tutti_store* store, size_t count, const tutti_key* keys,
                                       const tutti_values* ins, const tutti_values* outs,
                                       const tutti_call_options* options, tutti_pending** pending);
/* Collective. Sends every rank a share of `in`, and fills `out` with the ranks' shares for this
 * one; they lie there by receiver and by sender. Rank s sends rank r counts[s * num_workers + r]
 * elements; all ranks pass the same counts, which are copied, else the outcome is TUTTI_MISMATCH.
 * Fails as allgather does. */
TUTTI_EXPORT int tutti_store_all_to_all(tutti_store* store, tutti_key key, const tutti_tensor* in,
                                        const tutti_tensor* out, const size_t* counts,
                                        size_t count_of_counts, const tutti_call_options* options,
                                        tutti_pending** pending);
/* Replaces a key's stored value by the sum (or `op`) of its `values`, or updates it by that once
 * there is an optimizer. Collective in `dist_sync` and its kin, which merge the n-th push of every
 * worker. TUTTI_INVALID_ARGUMENT for a key without a stored value or of another dtype or shape,
 * which with a parameter server is the outcome's. TUTTI_UNSUPPORTED with `dist_sync_mpi`. */
TUTTI_EXPORT int tutti_store_push(tutti_store* store, size_t count, const tutti_key* keys,
                                  const tutti_values* values, const tutti_call_options* options,
                                  tutti_pending** pending);
/* Copies a key's stored value to every one of its `outs`. Not collective. Fails as push does. */
TUTTI_EXPORT int tutti_store_pull(tutti_store* store, size_t count, const tutti_key* keys,
                                  const tutti_values* outs, const tutti_call_options* options,
                                  tutti_pending** pending);

/* As the rank of `tutti_store_recv`: whoever sends. */
#define TUTTI_ANY_RANK (-1)

/* Sends a tensor on the CPU, of any shape, to one other rank, which calls `tutti_store_recv` for it
 * with the same tag, dtype and number of elements. With `dist_sync_mpi` alone, and not collective:
 * KVStore::send says more. Both return at once; both outcomes come when the receiver has all
 * elements, or are TUTTI_MISMATCH or TUTTI_TIMEOUT, on both ranks, TUTTI_ABORTED or
 * TUTTI_PEER_LOST. After a TUTTI_TIMEOUT both ranks must make their calls again.
 * They return TUTTI_INVALID_ARGUMENT for a rank that there is not, for this one and for a tag below
 * 0, TUTTI_UNSUPPORTED for other types and for a tensor on a GPU. `pending` may be null. */
TUTTI_EXPORT int tutti_store_send(tutti_store* store, const tutti_tensor* tensor, int to_rank,
                                  int tag, tutti_pending** pending);
/* `from_rank` may be TUTTI_ANY_RANK. The call writes the sender's rank to `source`, which lives
 * until the call is done, unless it is null. */
TUTTI_EXPORT int tutti_store_recv(tutti_store* store, const tutti_tensor* tensor, int from_rank,
                                  int tag, int* source, tutti_pending** pending);

/* These do not return before they are done. From here to num_dead_node all but
 * set_gradient_compression are TUTTI_UNSUPPORTED with `dist_sync_mpi`. */

/* Stores a copy of each key's first value. With a parameter server it is collective, worker 0's
 * value is stored, and it blocks until every worker has called it. TUTTI_INVALID_ARGUMENT for a key
 * that has a value already. */
TUTTI_EXPORT int tutti_store_init(tutti_store* store, size_t count, const tutti_key* keys,
                                  const tutti_values* values);
/* Copies the rows of the stored value that a key's entry of `row_ids` names to every one of its
 * `outs`, whose other rows become zeros. Not collective. Blocks until the rows are there.
 * TUTTI_INVALID_ARGUMENT for a row that the value does not have, and as pull. */
TUTTI_EXPORT int tutti_store_row_sparse_pull(tutti_store* store, size_t count,
                                             const tutti_key* keys, const tutti_values* outs,
                                             const tutti_tensor* const* row_ids);

typedef struct tutti_parameter {
  const char* name; /* "learning_rate", "momentum", ... */
  double value;
} tutti_parameter;

/* What multiplies the learning rate and the weight decay of one key. */
typedef struct tutti_factors {
  tutti_key key;
  double learning_rate;
  double wd;
} tutti_factors;

/* An update rule; tutti/optimizer.h has the names and parameters. Lists of no entries may be null.
 */
typedef struct tutti_optimizer {
  const char* name;
  const tutti_parameter* parameters;
  size_t parameter_count;
  const tutti_factors* factors;
  size_t factor_count;
} tutti_optimizer;

/* From now on the store updates its values by this rule. With a parameter server it is collective
 * and blocks until every worker, with `dist_async` worker 0 or the lowest that has not gone, has
 * called it; TUTTI_MISMATCH where they differ. TUTTI_INVALID_ARGUMENT for an unknown rule or
 * parameter and a value out of range. */
TUTTI_EXPORT int tutti_store_set_optimizer(tutti_store* store, const tutti_optimizer* optimizer);
/* Writes what the rule keeps of each key into a file and, unless `dump_optimizer` is 0, the rule.
 * Not collective: one worker is enough. Blocks until it is written. TUTTI_INVALID_ARGUMENT without
 * an optimizer, TUTTI_INTERNAL when the file cannot be written. */
TUTTI_EXPORT int tutti_store_save_optimizer_states(tutti_store* store, const char* path,
                                                   int dump_optimizer);
/* Takes them from such a file. With a parameter server it is collective and blocks until every
 * worker, with `dist_async` worker 0, has called it; worker 0's file is read, and all get its
 * error. TUTTI_INVALID_ARGUMENT for a file that is missing, damaged or of another rule. */
TUTTI_EXPORT int tutti_store_load_optimizer_states(tutti_store* store, const char* path);
/* The format in which tensors travel: "none", "fp16" or "bf16"; with a parameter server also "2bit"
 * and "1bit", which alone have a `threshold`; in them an element that is not finite makes the sum
 * so, and nothing of it stays for the next push. Every rank calls it alike before its first tensor,
 * later it is TUTTI_INVALID_ARGUMENT. With a parameter server it is collective and blocks until
 * every worker has called it; TUTTI_MISMATCH where they differ. */
TUTTI_EXPORT int tutti_store_set_gradient_compression(tutti_store* store, const char* kind,
                                                      double threshold);
/* `*count` gets the number of the job's nodes that were lost. */
TUTTI_EXPORT int tutti_store_num_dead_node(tutti_store* store, int* count);
/* Collective. Blocks until every rank has called it; does not wait for tensors in flight. */
TUTTI_EXPORT int tutti_store_barrier(tutti_store* store);
/* Collective, for a rank that ran out of data: until all have joined it adds nothing to what the
 * others reduce, and an average does not count it. Blocks until all have joined; `last` gets the
 * last rank to join, and may be null. TUTTI_UNSUPPORTED with a parameter server. */
TUTTI_EXPORT int tutti_store_join(tutti_store* store, int* last);
/* A tensor in node-shared memory. It may outlive the store. Not collective. Blocks while the kernel
 * clears the memory. TUTTI_INTERNAL when there is not enough. */
TUTTI_EXPORT int tutti_store_allocate(tutti_store* store, const int64_t* dims, size_t rank,
                                      int dtype, tutti_tensor** tensor);
/* The same on a device; on a GPU it is memory of the device, with any contents. TUTTI_UNSUPPORTED
 * for a GPU in a store that takes tensors on the CPU. */
TUTTI_EXPORT int tutti_store_allocate_on(tutti_store* store, const int64_t* dims, size_t rank,
                                         int dtype, tutti_device device, tutti_tensor** tensor);

/* The fields of tutti::Counters (tutti/counters.h), where each is explained. */
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

/* `size` is sizeof(tutti_counters): a library that knows more counters than the program was built
 * with leaves those out, and one that knows fewer sets the rest to 0. */
TUTTI_EXPORT int tutti_store_counters(const tutti_store* store, tutti_counters* counters,
                                      size_t size);
/* Sizes, limits and policies that this store uses, with where each comes from; for people. None in
 * stores of one process. */
TUTTI_EXPORT int tutti_store_choices(const tutti_store* store, tutti_facts** facts);

/* The elements [*begin, *end) of `count` that `rank` of `size` ranks has of a reduce_scatter. */
TUTTI_EXPORT int tutti_shard(size_t count, int rank, int size, size_t* begin, size_t* end);

/* ---- Outcomes -------------------------------------------------------------------------------- */

/* Blocks until the call is done; returns the call's own error, every time. Not in a callback. */
TUTTI_EXPORT int tutti_pending_wait(const tutti_pending* pending);
/* As `tutti_pending_wait`, for at most so many seconds (0 looks only). `*done` gets whether the
 * call is done, also beside the call's own error; while it is not the code is TUTTI_OK. */
TUTTI_EXPORT int tutti_pending_wait_for(const tutti_pending* pending, double seconds, int* done);
/* Makes a stream, as in `tutti_tensor_set_stream`, wait for the call in place of this thread: work
 * that is enqueued there later finds the results. Blocks until the last copy to an output on a GPU
 * is issued; with outputs on the CPU until the call is done. TUTTI_INVALID_ARGUMENT in a callback,
 * and while the program captures the stream as a graph. */
TUTTI_EXPORT int tutti_pending_wait_on(const tutti_pending* pending, void* stream);
/* 1 or 0; not 0 for a null pointer either. */
TUTTI_EXPORT int tutti_pending_done(const tutti_pending* pending);

/* `error` is null when all went well; else valid until the callback returns. */
typedef void (*tutti_callback)(void* context, const tutti_error* error);

/* Calls `callback` once, on the store's communication thread, or at once on this one when the call
 * is done already. It may submit calls, but not wait for one nor destroy the store, and is short:
 * meanwhile that thread moves nothing. TUTTI_UNSUPPORTED in a forked child where the call is not
 * done. */
TUTTI_EXPORT int tutti_pending_then(const tutti_pending* pending, tutti_callback callback,
                                    void* context);
/* The call goes on; an error that nobody has waited for is logged. */
TUTTI_EXPORT void tutti_pending_destroy(tutti_pending* pending);

#ifdef __cplusplus
}
#endif

#endif
