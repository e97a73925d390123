/* dist_sync_mpi's contract through the C API, in C99: the sentences of test/mpi/store_test.cc and
 * its neighbours, which test what is below in depth. Every rank runs the same cases in the same
 * order. */
#include <pthread.h>
#include <string.h>

#include "c_check.h"

enum { COUNT = 1000 };
static const int64_t DIMS[1] = {COUNT};
static const tutti_device CPU = {TUTTI_CPU, 0};

static tutti_store* make_store(void) {
  tutti_store* store = NULL;
  CHECK_OK(tutti_store_create("dist_sync_mpi", NULL, &store));
  return store;
}

static tutti_tensor* over(void* data, const int64_t* dims, size_t rank, int dtype) {
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_tensor_create(data, dims, rank, dtype, CPU, NULL, NULL, &tensor));
  return tensor;
}

static tutti_key named(const char* text) {
  tutti_key key = {NULL, 0};
  key.text = text;
  return key;
}

/* In place, waited for; returns the call's code. */
static int pushpull(tutti_store* store, tutti_key key, const tutti_tensor* tensor,
                    const tutti_call_options* options) {
  const tutti_values values = {&tensor, 1};
  tutti_pending* pending = NULL;
  int code = tutti_store_pushpull(store, 1, &key, &values, &values, options, &pending);
  if (code == TUTTI_OK) code = tutti_pending_wait(pending);
  tutti_pending_destroy(pending);
  return code;
}

static int broadcast(tutti_store* store, tutti_key key, const tutti_tensor* tensor, int root) {
  const tutti_values values = {&tensor, 1};
  tutti_pending* pending = NULL;
  int code = tutti_store_broadcast(store, 1, &key, &values, root, NULL, &pending);
  if (code == TUTTI_OK) code = tutti_pending_wait(pending);
  tutti_pending_destroy(pending);
  return code;
}

static void check_alive(tutti_store* store) {
  float value = 1;
  tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
  CHECK_OK(pushpull(store, named("alive"), tensor, NULL));
  CHECK(value == (float)tutti_store_num_workers(store));
  tutti_tensor_destroy(tensor);
}

static void pushpull_gives_every_rank_the_sum(void) {
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), ranks = tutti_store_num_workers(store);
  float in[COUNT], out[COUNT];
  for (int i = 0; i < COUNT; ++i) in[i] = (float)(rank * 7 + i);
  tutti_tensor *from = over(in, DIMS, 1, TUTTI_F32), *to = over(out, DIMS, 1, TUTTI_F32);
  const tutti_tensor *from_list = from, *to_list = to;
  const tutti_values ins = {&from_list, 1}, outs = {&to_list, 1};
  const tutti_key key = named("weight");
  tutti_pending* pending = NULL;
  CHECK_OK(tutti_store_pushpull(store, 1, &key, &ins, &outs, NULL, &pending));
  CHECK_OK(tutti_pending_wait(pending));
  CHECK(tutti_pending_done(pending));
  int wrong = 0;
  for (int i = 0; i < COUNT; ++i)
    wrong += out[i] != (float)(7 * ranks * (ranks - 1) / 2 + i * ranks);
  CHECK(wrong == 0);
  tutti_pending_destroy(pending);
  tutti_tensor_destroy(from);
  tutti_tensor_destroy(to);
  tutti_store_destroy(store);
}

static void several_devices_and_keys_in_one_call(void) {
  tutti_store* store = make_store();
  const int ranks = tutti_store_num_workers(store);
  int32_t values[2][2][COUNT];
  const tutti_tensor* tensors[2][2];
  tutti_values lists[2];
  tutti_key keys[2] = {{NULL, 3}, {NULL, -4}};
  for (int key = 0; key < 2; ++key) {
    for (int device = 0; device < 2; ++device) {
      for (int i = 0; i < COUNT; ++i) values[key][device][i] = 10 * key + device + i;
      tutti_tensor* tensor = NULL;
      const tutti_device where = {TUTTI_CPU, device};
      CHECK_OK(
          tutti_tensor_create(values[key][device], DIMS, 1, TUTTI_I32, where, NULL, NULL, &tensor));
      CHECK(tutti_tensor_device(tensor).index == device);
      tensors[key][device] = tensor;
    }
    lists[key].tensors = tensors[key];
    lists[key].count = 2;
  }
  tutti_pending* pending = NULL;
  CHECK_OK(tutti_store_pushpull(store, 2, keys, lists, lists, NULL, &pending));
  CHECK_OK(tutti_pending_wait(pending));
  tutti_pending_destroy(pending);
  int wrong = 0;
  for (int key = 0; key < 2; ++key) {
    for (int device = 0; device < 2; ++device) {
      for (int i = 0; i < COUNT; ++i)
        wrong += values[key][device][i] != ranks * (20 * key + 1 + 2 * i);
      tutti_tensor_destroy((tutti_tensor*)tensors[key][device]);
    }
  }
  CHECK(wrong == 0);
  tutti_store_destroy(store);
}

static void broadcast_gives_every_rank_the_roots_value(void) {
  tutti_store* store = make_store();
  const int ranks = tutti_store_num_workers(store);
  for (int root = 0; root < ranks; ++root) {
    double value = tutti_store_rank(store) == root ? root + 0.5 : -1;
    tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F64);
    CHECK_OK(broadcast(store, named("weight"), tensor, root));
    CHECK(value == root + 0.5);
    tutti_tensor_destroy(tensor);
  }
  tutti_store_destroy(store);
}

static void average_minimum_and_maximum(void) {
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), ranks = tutti_store_num_workers(store);
  const float expected[] = {(float)(ranks - 1) / 2, 0, (float)(ranks - 1)};
  for (int op = TUTTI_AVERAGE; op <= TUTTI_MAX; ++op) {
    float value = (float)rank;
    tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
    tutti_call_options options = {0, 0};
    options.op = op;
    options.priority = op;
    CHECK_OK(pushpull(store, named("value"), tensor, &options));
    CHECK(value == expected[op - TUTTI_AVERAGE]);
    tutti_tensor_destroy(tensor);
  }
  tutti_store_destroy(store);
}

static void the_two_halves_give_the_whole(void) {
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), ranks = tutti_store_num_workers(store);
  float whole[COUNT], shard[COUNT], again[COUNT];
  for (int i = 0; i < COUNT; ++i) whole[i] = (float)(rank + i);
  size_t begin = 0, end = 0;
  CHECK_OK(tutti_shard(COUNT, rank, ranks, &begin, &end));
  const int64_t shard_dims[1] = {(int64_t)(end - begin)};
  tutti_tensor *in = over(whole, DIMS, 1, TUTTI_F32), *half = over(shard, shard_dims, 1, TUTTI_F32),
               *out = over(again, DIMS, 1, TUTTI_F32);
  const tutti_tensor *ins[1] = {in}, *halves[1] = {half}, *outs[1] = {out};
  const tutti_values from = {ins, 1}, middle = {halves, 1}, to = {outs, 1};
  const tutti_key key = named("gradient");
  tutti_pending* pending = NULL;
  CHECK_OK(tutti_store_reduce_scatter(store, 1, &key, &from, &middle, NULL, &pending));
  CHECK_OK(tutti_pending_wait(pending));
  tutti_pending_destroy(pending);
  CHECK_OK(tutti_store_allgather(store, 1, &key, &middle, &to, NULL, &pending));
  CHECK_OK(tutti_pending_wait(pending));
  tutti_pending_destroy(pending);
  int wrong = 0;
  for (int i = 0; i < COUNT; ++i) wrong += again[i] != (float)(ranks * (ranks - 1) / 2 + i * ranks);
  CHECK(wrong == 0);
  tutti_tensor_destroy(in);
  tutti_tensor_destroy(half);
  tutti_tensor_destroy(out);
  tutti_store_destroy(store);
}

static void allocated_tensors_outlive_their_store(void) {
  tutti_store* store = make_store();
  const int64_t dims[2] = {3, 5};
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_store_allocate(store, dims, 2, TUTTI_F32, &tensor));
  size_t rank = 0;
  CHECK(memcmp(tutti_tensor_dims(tensor, &rank), dims, sizeof dims) == 0);
  CHECK(rank == 2);
  CHECK(tutti_tensor_count(tensor) == 15);
  CHECK(tutti_tensor_bytes(tensor) == 60);
  CHECK(tutti_tensor_dtype(tensor) == TUTTI_F32);
  float* data = tutti_tensor_data(tensor);
  for (int i = 0; i < 15; ++i) data[i] = 1;
  CHECK_OK(pushpull(store, named("weight"), tensor, NULL));
  const float ranks = (float)tutti_store_num_workers(store);
  tutti_store_destroy(store);
  for (int i = 0; i < 15; ++i) CHECK(data[i] == ranks);
  tutti_tensor_destroy(tensor);
}

/* What a callback found. */
typedef struct {
  int calls, code, has_key, first_rank;
  char key[64];
} heard;

typedef struct {
  tutti_store* store;
  const tutti_tensor* tensor;
  pthread_mutex_t mutex;
  pthread_cond_t submitted;
  tutti_pending* pending;
} next_round;

static void submit_next(void* context, const tutti_error* error) {
  next_round* next = context;
  const tutti_values values = {&next->tensor, 1};
  const tutti_key key = {"next", 0};
  tutti_pending* pending = NULL;
  CHECK(error == NULL);
  CHECK_OK(tutti_store_pushpull(next->store, 1, &key, &values, &values, NULL, &pending));
  pthread_mutex_lock(&next->mutex);
  next->pending = pending;
  pthread_cond_signal(&next->submitted);
  pthread_mutex_unlock(&next->mutex);
}

static void a_callback_may_submit_the_next_round(void) {
  tutti_store* store = make_store();
  float first = 1, second = 2;
  tutti_tensor *one = over(&first, NULL, 0, TUTTI_F32), *two = over(&second, NULL, 0, TUTTI_F32);
  next_round next = {store, two, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};
  const tutti_tensor* tensors[1] = {one};
  const tutti_values values = {tensors, 1};
  const tutti_key key = named("first");
  tutti_pending* pending = NULL;
  CHECK_OK(tutti_store_pushpull(store, 1, &key, &values, &values, NULL, &pending));
  CHECK_OK(tutti_pending_then(pending, submit_next, &next));
  pthread_mutex_lock(&next.mutex);
  while (next.pending == NULL) pthread_cond_wait(&next.submitted, &next.mutex);
  pthread_mutex_unlock(&next.mutex);
  CHECK_OK(tutti_pending_wait(next.pending));
  CHECK(first == (float)tutti_store_num_workers(store));
  CHECK(second == 2 * first);
  tutti_pending_destroy(next.pending);
  tutti_pending_destroy(pending);
  tutti_tensor_destroy(one);
  tutti_tensor_destroy(two);
  tutti_store_destroy(store);
}

static void note_error(void* context, const tutti_error* error) {
  heard* what = context;
  ++what->calls;
  what->code = error == NULL ? TUTTI_OK : error->code;
  if (error == NULL) return;
  what->has_key = error->has_key;
  what->first_rank = error->rank_count > 0 ? error->ranks[0] : -1;
  if (error->has_key && error->key.text != NULL)
    strncpy(what->key, error->key.text, sizeof what->key - 1);
}

static void shapes_that_differ_name_key_and_ranks_as_data(void) {
  tutti_store* store = make_store();
  const int last = tutti_store_num_workers(store) - 1;
  if (last > 0) {
    float data[6] = {0};
    const int64_t dims[2] = {2, 3}, other[2] = {3, 2};
    tutti_tensor* tensor = over(data, tutti_store_rank(store) == last ? other : dims, 2, TUTTI_F32);
    const tutti_tensor* tensors[1] = {tensor};
    const tutti_values values = {tensors, 1};
    const tutti_key key = named("fc1_weight");
    heard what = {0, 0, 0, 0, ""};
    tutti_pending* pending = NULL;
    CHECK_OK(tutti_store_pushpull(store, 1, &key, &values, &values, NULL, &pending));
    CHECK(tutti_pending_wait(pending) == TUTTI_MISMATCH);
    CHECK_OK(tutti_pending_then(pending, note_error, &what));
    tutti_pending_destroy(pending);
    CHECK_SAYS("(2, 3)");
    CHECK_SAYS("(3, 2)");
    const tutti_error* error = tutti_last_error();
    CHECK(error->code == TUTTI_MISMATCH);
    CHECK(error->has_key && strcmp(error->key.text, "fc1_weight") == 0);
    CHECK(error->rank_count == 1 && error->ranks[0] == last);
    CHECK(what.calls == 1 && what.code == TUTTI_MISMATCH && what.has_key &&
          what.first_rank == last);
    CHECK(strcmp(what.key, "fc1_weight") == 0);
    tutti_tensor_destroy(tensor);
  }
  check_alive(store);
  tutti_store_destroy(store);
}

static void a_tensor_that_one_rank_never_submits_names_that_rank(void) {
  tutti_store* patient = make_store();
  tutti_options* options = NULL;
  CHECK_OK(tutti_options_from_env(&options));
  CHECK_OK(tutti_options_set(options, "key_timeout", "0.3"));
  CHECK_OK(tutti_options_set(options, "log_level", "off"));
  tutti_store* store = NULL;
  CHECK_OK(tutti_store_create("dist_sync_mpi", options, &store));
  tutti_options_destroy(options);
  const int last = tutti_store_num_workers(store) - 1;
  if (last > 0 && tutti_store_rank(store) != last) {
    float value = 1;
    tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
    CHECK(pushpull(store, named("late"), tensor, NULL) == TUTTI_TIMEOUT);
    const tutti_error* error = tutti_last_error();
    CHECK(error->rank_count == 1 && error->ranks[0] == last);
    CHECK(error->has_key && strcmp(error->key.text, "late") == 0);
    tutti_tensor_destroy(tensor);
  }
  /* Who leaves earlier would be the error. The other store has time. */
  CHECK_OK(tutti_store_barrier(patient));
  tutti_store_destroy(store);
  tutti_store_destroy(patient);
}

static void methods_that_this_type_lacks_say_so(void) {
  tutti_store* store = make_store();
  float value = 1;
  tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
  const tutti_tensor* tensors[1] = {tensor};
  const tutti_values values = {tensors, 1};
  const tutti_key key = named("weight");
  tutti_pending* pending = NULL;
  CHECK(tutti_store_init(store, 1, &key, &values) == TUTTI_UNSUPPORTED);
  CHECK_SAYS("broadcast");
  CHECK(tutti_store_push(store, 1, &key, &values, NULL, &pending) == TUTTI_UNSUPPORTED);
  CHECK(tutti_store_pull(store, 1, &key, &values, NULL, &pending) == TUTTI_UNSUPPORTED);
  CHECK(tutti_store_row_sparse_pull(store, 1, &key, &values, tensors) == TUTTI_UNSUPPORTED);
  CHECK(tutti_store_set_optimizer(store, "sgd") == TUTTI_UNSUPPORTED);
  CHECK(tutti_store_save_optimizer_states(store, "states", 0) == TUTTI_UNSUPPORTED);
  CHECK(tutti_store_load_optimizer_states(store, "states") == TUTTI_UNSUPPORTED);
  CHECK(tutti_store_set_gradient_compression(store, "2bit") == TUTTI_UNSUPPORTED);
  CHECK(pending == NULL);
  tutti_tensor_destroy(tensor);
  check_alive(store);
  tutti_store_destroy(store);
}

static void a_rank_that_joins_contributes_nothing(void) {
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), ranks = tutti_store_num_workers(store);
  if (rank > 0 || ranks == 1) {
    float value = 1;
    tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
    CHECK_OK(pushpull(store, named("rest"), tensor, NULL));
    CHECK(value == (float)(ranks == 1 ? 1 : ranks - 1));
    tutti_tensor_destroy(tensor);
  }
  int last = -1;
  CHECK_OK(tutti_store_join(store, &last));
  CHECK(last >= 0 && last < ranks);
  check_alive(store);
  tutti_store_destroy(store);
}

static void count_release(void* context) {
  ++*(int*)context;
}

static void lent_memory_is_given_back_once(void) {
  tutti_store* store = make_store();
  int released = 0;
  float value = 1;
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_tensor_create(&value, NULL, 0, TUTTI_F32, CPU, count_release, &released, &tensor));
  const tutti_tensor* tensors[1] = {tensor};
  const tutti_values values = {tensors, 1};
  const tutti_key key = named("lent");
  CHECK_OK(tutti_store_pushpull(store, 1, &key, &values, &values, NULL, NULL));
  tutti_tensor_destroy(tensor);
  check_alive(store);
  tutti_store_destroy(store);
  CHECK(released == 1);
  CHECK(tutti_tensor_create(&value, NULL, 0, 99, CPU, count_release, &released, &tensor) ==
        TUTTI_INVALID_ARGUMENT);
  CHECK(released == 2);
}

static void bad_arguments_are_errors_that_say_which(void) {
  tutti_store* store = NULL;
  CHECK(tutti_store_create("dist_sync_mpl", NULL, &store) == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("dist_sync_mpi");
  CHECK(tutti_store_create(NULL, NULL, &store) == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("tutti_store_create: type is a null pointer");
  CHECK(store == NULL);
  CHECK(tutti_store_barrier(NULL) == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_pending_wait(NULL) == TUTTI_INVALID_ARGUMENT);
  tutti_options* options = NULL;
  CHECK_OK(tutti_options_create(&options));
  CHECK(tutti_options_set(options, "key_timeot", "1") == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("key_timeout");
  CHECK(tutti_options_set(options, "key_timeout", "soon") == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("seconds");
  tutti_options_destroy(options);
  CHECK(strcmp(tutti_code_name(TUTTI_PEER_LOST), "peer_lost") == 0);
  CHECK(strcmp(tutti_code_name(-1), "unknown") == 0);
  CHECK(strcmp(tutti_code_name(99), "unknown") == 0);
  tutti_tensor_destroy(NULL);
  tutti_store_destroy(NULL);
}

static void a_wait_with_a_limit_and_counters(void) {
  tutti_store* store = make_store();
  float value = 1;
  tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
  const tutti_tensor* tensors[1] = {tensor};
  const tutti_values values = {tensors, 1};
  const tutti_key key = named("timed");
  tutti_pending* pending = NULL;
  int done = -1;
  CHECK_OK(tutti_store_pushpull(store, 1, &key, &values, &values, NULL, &pending));
  CHECK_OK(tutti_pending_wait_for(pending, 30, &done));
  CHECK(done == 1);
  CHECK(tutti_pending_wait_for(pending, -1, &done) == TUTTI_INVALID_ARGUMENT);
  tutti_pending_destroy(pending);
  tutti_counters counters;
  CHECK_OK(tutti_store_counters(store, &counters, sizeof counters));
  CHECK(counters.tensors_reduced == 1);
  CHECK(counters.bytes_reduced == sizeof value);
  /* A program that knows only the first counter. */
  memset(&counters, 0xff, sizeof counters);
  CHECK_OK(tutti_store_counters(store, &counters, sizeof counters.tensors_reduced));
  CHECK(counters.tensors_reduced == 1);
  CHECK(counters.bytes_reduced == UINT64_MAX);
  CHECK(strcmp(tutti_store_type(store), "dist_sync_mpi") == 0);
  CHECK(tutti_store_nodes(store) == 1);
  CHECK(tutti_store_local_rank(store) == tutti_store_rank(store));
  CHECK(tutti_store_local_size(store) == tutti_store_num_workers(store));
  tutti_tensor_destroy(tensor);
  tutti_store_destroy(store);
}

static const test_case TESTS[] = {
    {"pushpull gives every rank the sum over all ranks", pushpull_gives_every_rank_the_sum},
    {"several devices and several keys go in one call", several_devices_and_keys_in_one_call},
    {"broadcast gives every rank the root's value, from any root",
     broadcast_gives_every_rank_the_roots_value},
    {"average, minimum and maximum", average_minimum_and_maximum},
    {"the two halves of a pushpull give the whole", the_two_halves_give_the_whole},
    {"tensors from allocate are exchanged like any other, and outlive their store",
     allocated_tensors_outlive_their_store},
    {"a callback may submit the next round", a_callback_may_submit_the_next_round},
    {"shapes that differ are an error on every rank, with key and ranks as data",
     shapes_that_differ_name_key_and_ranks_as_data},
    {"a tensor that one rank never submits times out and names the missing rank",
     a_tensor_that_one_rank_never_submits_names_that_rank},
    {"methods that this type does not have say so", methods_that_this_type_lacks_say_so},
    {"a rank that joins contributes nothing while the others go on",
     a_rank_that_joins_contributes_nothing},
    {"memory that was lent is given back once, whatever happens", lent_memory_is_given_back_once},
    {"bad arguments are errors that say which", bad_arguments_are_errors_that_say_which},
    {"a wait may have a limit, and counters are for programs of any age",
     a_wait_with_a_limit_and_counters},
};

int main(void) {
  return run_all(TESTS, sizeof TESTS / sizeof TESTS[0]);
}
