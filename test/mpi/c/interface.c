/* What the C interface promises beside the contract: whose memory is whose, arguments that are
 * missing, limits of a wait. */
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
      {"a closed store refuses calls and is still to be destroyed",
       a_closed_store_refuses_calls_and_is_still_to_be_destroyed},
      {"a wait may have a limit, and counters are for programs of any age",
       a_wait_with_a_limit_and_counters});
