/* What the C interface promises beside the contract: whose memory is whose, arguments that are
 * missing, limits of a wait. */
#include <pthread.h>

#include "fixture.h"

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
  CHECK_OK(pushpull(store, named("weight"), tensor));
  const float ranks = (float)tutti_store_num_workers(store);
  tutti_store_destroy(store);
  for (int i = 0; i < 15; ++i) CHECK(data[i] == ranks);
  tutti_tensor_destroy(tensor);
}

static void count_release(void* context) {
  ++*(int*)context;
}

static void lent_memory_is_given_back_once(void) {
  const tutti_device cpu = {TUTTI_CPU, 0};
  tutti_store* store = make_store();
  int released = 0;
  float value = 1;
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_tensor_create(&value, NULL, 0, TUTTI_F32, cpu, count_release, &released, &tensor));
  const tutti_tensor* tensors[1] = {tensor};
  const tutti_values values = {tensors, 1};
  const tutti_key key = named("lent");
  CHECK_OK(tutti_store_pushpull(store, 1, &key, &values, &values, NULL, NULL));
  tutti_tensor_destroy(tensor);
  check_alive(store);
  tutti_store_destroy(store);
  CHECK(released == 1);
  CHECK(tutti_tensor_create(&value, NULL, 0, 99, cpu, count_release, &released, &tensor) ==
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

static void* fail_otherwise(void* context) {
  const tutti_error** seen = context;
  CHECK(tutti_last_error()->code == TUTTI_OK);
  CHECK(strcmp(tutti_last_error()->message, "") == 0);
  CHECK(tutti_pending_wait(NULL) == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("tutti_pending_wait");
  *seen = tutti_last_error();
  return NULL;
}

static void errors_of_two_threads(void) {
  CHECK(tutti_store_barrier(NULL) == TUTTI_INVALID_ARGUMENT);
  const tutti_error *mine = tutti_last_error(), *other = NULL;
  pthread_t thread;
  pthread_create(&thread, NULL, fail_otherwise, &other);
  pthread_join(thread, NULL);
  CHECK(tutti_last_error() == mine && other != mine);
  CHECK_SAYS("tutti_store_barrier");
}

static void a_failure_writes_no_result(void) {
  tutti_options* options = NULL;
  tutti_facts* facts = NULL;
  size_t begin = 7, end = 8;
  CHECK(tutti_shard(10, 2, 2, &begin, &end) == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("rank 2 has no shard: the ranks are 0 to 1");
  CHECK(tutti_shard(10, 0, 0, &begin, &end) == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("at least one");
  CHECK(tutti_shard(10, 0, 2, &begin, NULL) == TUTTI_INVALID_ARGUMENT);
  CHECK(begin == 7 && end == 8);
  CHECK_OK(tutti_options_create(&options));
  CHECK_OK(tutti_options_set(options, "log_level", "error"));
  CHECK_OK(tutti_options_set(options, "part_bytes", "1M"));
  CHECK(tutti_options_set(options, "log_level", "loud") == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_options_set(options, "part_bytes", "lots") == TUTTI_INVALID_ARGUMENT);
  CHECK_OK(tutti_options_describe(options, &facts));
  size_t kept = 0;
  for (size_t i = 0; i < facts->count; ++i) {
    const tutti_fact fact = facts->facts[i];
    kept += strcmp(fact.name, "TUTTI_LOG") == 0 && strcmp(fact.value, "error") == 0;
    kept += strcmp(fact.name, "TUTTI_PART_BYTES") == 0 && strcmp(fact.value, "1M") == 0;
    CHECK(fact.origin == NULL);
  }
  CHECK(kept == 2);
  tutti_facts_destroy(facts);
  tutti_options_destroy(options);
}

typedef struct {
  tutti_pending* other;
  int code, done;
} waited;

static void wait_for_the_other(void* context, const tutti_error* error) {
  waited* seen = context;
  CHECK(error == NULL);
  seen->code = tutti_pending_wait_for(seen->other, 10, &seen->done);
}

static void a_wait_that_is_refused(void) {
  tutti_store* store = make_store();
  array here = make_array(1), there = make_array(1);
  /* The last rank comes when all others have been refused. */
  const int late = job_rank() == job_size() - 1;
  tutti_pending* first = NULL;
  waited seen = {NULL, TUTTI_OK, 7};
  CHECK_OK(submit(store, TUTTI_SUM, named("here"), here.tensor, here.tensor, &first));
  CHECK_OK(tutti_pending_wait(first));
  if (!late) {
    CHECK_OK(submit(store, TUTTI_SUM, named("there"), there.tensor, there.tensor, &seen.other));
    CHECK_OK(tutti_pending_then(first, wait_for_the_other, &seen));
    CHECK(seen.code == TUTTI_INVALID_ARGUMENT && seen.done == 7);
  }
  CHECK_OK(finish(first));
  CHECK_OK(tutti_store_barrier(store));
  CHECK_OK(late ? pushpull(store, named("there"), there.tensor) : finish(seen.other));
  drop(&here);
  drop(&there);
  tutti_store_destroy(store);
}

static void a_wait_with_a_limit_and_counters(void) {
  tutti_store* store = make_store();
  float value = 1;
  tutti_tensor* tensor = over(&value);
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

static void an_optimizer_with_parameters(void) {
  tutti_store* store = NULL;
  CHECK_OK(tutti_store_create("local", NULL, &store));
  array weight = make_array(2), gradient = make_array(2);
  fill(&gradient, 1);
  const tutti_tensor *weights[1] = {weight.tensor}, *gradients[1] = {gradient.tensor};
  const tutti_values values[2] = {{weights, 1}, {weights, 1}};
  const tutti_values steps[2] = {{gradients, 1}, {gradients, 1}};
  const tutti_key keys[2] = {named("weight"), named("bias")};
  CHECK_OK(tutti_store_init(store, 2, keys, values));
  const tutti_parameter parameters[1] = {{"learning_rate", 0.5}};
  const tutti_factors factors[1] = {{keys[1], 4, 1}};
  tutti_optimizer optimizer = {"sgd", parameters, 1, factors, 1};
  CHECK_OK(tutti_store_set_optimizer(store, &optimizer));
  tutti_pending* pushed = NULL;
  CHECK_OK(tutti_store_push(store, 2, keys, steps, NULL, &pushed));
  CHECK_OK(finish(pushed));
  const float wanted[2] = {-0.5F, -2};
  for (int i = 0; i < 2; ++i) {
    tutti_pending* pulled = NULL;
    CHECK_OK(tutti_store_pull(store, 1, &keys[i], values, NULL, &pulled));
    CHECK_OK(finish(pulled));
    CHECK(unlike(&weight, wanted[i]) == 0);
  }
  optimizer.name = "sdg";
  CHECK(tutti_store_set_optimizer(store, &optimizer) == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("did you mean 'sgd'?");
  optimizer.parameters = NULL;
  CHECK(tutti_store_set_optimizer(store, &optimizer) == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("optimizer.parameters is a null pointer");
  drop(&weight);
  drop(&gradient);
  tutti_store_destroy(store);
}

static void a_closed_store_refuses_calls_and_is_still_to_be_destroyed(void) {
  tutti_store* store = make_store();
  check_alive(store);
  CHECK_OK(tutti_store_close(store));
  CHECK_OK(tutti_store_close(store));
  CHECK(tutti_store_barrier(store) == TUTTI_ABORTED);
  CHECK_SAYS("barrier of a store that is closed");
  CHECK(tutti_store_close(NULL) == TUTTI_INVALID_ARGUMENT);
  tutti_store_destroy(store);
}

TESTS(interface_tests,
      {"tensors from allocate outlive their store", allocated_tensors_outlive_their_store},
      {"memory that was lent is given back once, whatever happens", lent_memory_is_given_back_once},
      {"bad arguments are errors that say which", bad_arguments_are_errors_that_say_which},
      {"a thread's last error is its own", errors_of_two_threads},
      {"a failure writes no result and leaves the options as they were",
       a_failure_writes_no_result},
      {"a wait that is refused does not say that the call is done", a_wait_that_is_refused},
      {"an optimizer updates the values of a store of one process", an_optimizer_with_parameters},
      {"a closed store refuses calls and is still to be destroyed",
       a_closed_store_refuses_calls_and_is_still_to_be_destroyed},
      {"a wait may have a limit, and counters are for programs of any age",
       a_wait_with_a_limit_and_counters});
