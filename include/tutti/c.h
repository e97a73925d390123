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
 * and none ends the process, except `tutti_store_destroy` where `tutti::KVStore`'s destructor does.
 *
 * Each function does what the method of the same name does in the C++ headers, where shapes,
 * collective calls and threads are told in full. */
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
  TUTTI_I64
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
 * tensor any more, or when this function fails; on any thread. */
TUTTI_EXPORT int tutti_tensor_create(void* data, const int64_t* dims, size_t rank, int dtype,
                                     tutti_device device, tutti_release release, void* context,
                                     tutti_tensor** tensor);
/* Calls in flight keep what they need. */
TUTTI_EXPORT void tutti_tensor_destroy(tutti_tensor* tensor);
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
 * where the option `ranks` names some of them. */
TUTTI_EXPORT int tutti_store_create(const char* type, const tutti_options* options,
                                    tutti_store** store);
/* Closes the store, blocks until then, and fails with what ended the store if no call has told it.
 * It is to be destroyed all the same. */
TUTTI_EXPORT int tutti_store_close(tutti_store* store);
/* Closes the store, and blocks until then. No other thread may use it. */
TUTTI_EXPORT void tutti_store_destroy(tutti_store* store);

/* The type as asked for, in lower case; lives as long as the store. */
TUTTI_EXPORT const char* tutti_store_type(const tutti_store* store);
TUTTI_EXPORT int tutti_store_rank(const tutti_store* store);
TUTTI_EXPORT int tutti_store_num_workers(const tutti_store* store);
/* Among the processes on this machine; and how many machines there are. */
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
 * flight are not compared. */

TUTTI_EXPORT int tutti_store_pushpull(tutti_store* store, size_t count, const tutti_key* keys,
                                      const tutti_values* ins, const tutti_values* outs,
                                      const tutti_call_options* options, tutti_pending** pending);
TUTTI_EXPORT int tutti_store_broadcast(tutti_store* store, size_t count, const tutti_key* keys,
                                       const tutti_values* values, int root_rank,
                                       const tutti_call_options* options, tutti_pending** pending);
TUTTI_EXPORT int tutti_store_reduce_scatter(tutti_store* store, size_t count, const tutti_key* keys,
                                            const tutti_values* ins, const tutti_values* outs,
                                            const tutti_call_options* options,
                                            tutti_pending** pending);
TUTTI_EXPORT int tutti_store_allgather(tutti_store* store, size_t count, const tutti_key* keys,
                                       const tutti_values* ins, const tutti_values* outs,
                                       const tutti_call_options* options, tutti_pending** pending);
TUTTI_EXPORT int tutti_store_push(tutti_store* store, size_t count, const tutti_key* keys,
                                  const tutti_values* values, const tutti_call_options* options,
                                  tutti_pending** pending);
TUTTI_EXPORT int tutti_store_pull(tutti_store* store, size_t count, const tutti_key* keys,
                                  const tutti_values* outs, const tutti_call_options* options,
                                  tutti_pending** pending);

/* These do not return before they are done. */

TUTTI_EXPORT int tutti_store_init(tutti_store* store, size_t count, const tutti_key* keys,
                                  const tutti_values* values);
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

TUTTI_EXPORT int tutti_store_set_optimizer(tutti_store* store, const tutti_optimizer* optimizer);
TUTTI_EXPORT int tutti_store_save_optimizer_states(tutti_store* store, const char* path,
                                                   int dump_optimizer);
TUTTI_EXPORT int tutti_store_load_optimizer_states(tutti_store* store, const char* path);
/* `threshold` is for "2bit" and "1bit"; other kinds have none. */
TUTTI_EXPORT int tutti_store_set_gradient_compression(tutti_store* store, const char* kind,
                                                      double threshold);
/* `*count` gets the number of the job's nodes that were lost. Does not block. */
TUTTI_EXPORT int tutti_store_num_dead_node(tutti_store* store, int* count);
TUTTI_EXPORT int tutti_store_barrier(tutti_store* store);
/* `last` gets the last rank to join; may be null. */
TUTTI_EXPORT int tutti_store_join(tutti_store* store, int* last);
/* A tensor in node-shared memory. It may outlive the store. */
TUTTI_EXPORT int tutti_store_allocate(tutti_store* store, const int64_t* dims, size_t rank,
                                      int dtype, tutti_tensor** tensor);

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
 * with leaves those out, and one that knows fewer sets the rest to 0. Does not block. */
TUTTI_EXPORT int tutti_store_counters(const tutti_store* store, tutti_counters* counters,
                                      size_t size);
/* Sizes, limits and policies that this store uses, with where each comes from; for people. None in
 * stores of one process. Does not block. */
TUTTI_EXPORT int tutti_store_choices(const tutti_store* store, tutti_facts** facts);

/* The elements [*begin, *end) of `count` that `rank` of `size` ranks has of a reduce_scatter. */
TUTTI_EXPORT int tutti_shard(size_t count, int rank, int size, size_t* begin, size_t* end);

/* ---- Outcomes -------------------------------------------------------------------------------- */

/* Blocks until the call is done; returns the call's own error, every time. Not in a callback. */
TUTTI_EXPORT int tutti_pending_wait(const tutti_pending* pending);
/* As `tutti_pending_wait`, for at most so many seconds (0 looks only). `*done` gets whether the
 * call is done, also beside the call's own error; while it is not the code is TUTTI_OK. */
TUTTI_EXPORT int tutti_pending_wait_for(const tutti_pending* pending, double seconds, int* done);
/* 1 or 0; not 0 for a null pointer either. Does not block. */
TUTTI_EXPORT int tutti_pending_done(const tutti_pending* pending);

/* `error` is null when all went well; else valid until the callback returns. */
typedef void (*tutti_callback)(void* context, const tutti_error* error);

/* Calls `callback` once, on the store's communication thread, or at once on this one when the call
 * is done already. It may submit calls, but not wait for one nor destroy the store.
 * TUTTI_UNSUPPORTED in a forked child where the call is not done. */
TUTTI_EXPORT int tutti_pending_then(const tutti_pending* pending, tutti_callback callback,
                                    void* context);
/* The call goes on; an error that nobody has waited for is logged. */
TUTTI_EXPORT void tutti_pending_destroy(tutti_pending* pending);

#ifdef __cplusplus
}
#endif

#endif
