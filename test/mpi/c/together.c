/* Order, callbacks, several stores, and what travels: the sentences of test/mpi/store_test.cc, the
 * second part. */
#include "fixture.h"

#include <pthread.h>

static void random_order(void) {
  enum { KEYS = 200, TURNS = 20 };
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), ranks = tutti_store_num_workers(store);
  uint64_t shared = 4711, own = 31 + (uint64_t)rank;
  array values[KEYS];
  size_t order[KEYS];
  tutti_pending* pending[KEYS];
  for (size_t key = 0; key < KEYS; ++key) {
    const int large = draw(&shared) % 16 == 0;
    values[key] = make_array((size_t)(draw(&shared) % (large ? 20000 : 300)), TUTTI_F32);
  }
  size_t wrong = 0;
  for (int turn = 0; turn < TURNS; ++turn) {
    shuffle(&own, order, KEYS);
    for (size_t i = 0; i < KEYS; ++i) {
      const size_t key = order[i];
      fill_values(&values[key], rank, key, turn);
      const how call = {.method = PUSHPULL, .priority = (int)(draw(&own) % 10)};
      CHECK_OK(submit(store, call, numbered((int64_t)key), values[key].tensor, values[key].tensor,
                      &pending[i]));
      if (draw(&own) % 100 == 0) nap(1);
    }
    for (size_t i = 0; i < KEYS; ++i) CHECK_OK(finish(pending[i]));
    for (size_t key = 0; key < KEYS; ++key) wrong += wrong_sums(&values[key], ranks, key, turn);
  }
  CHECK(wrong == 0);
  tutti_counters counters;
  CHECK_OK(tutti_store_counters(store, &counters, sizeof counters));
  CHECK(counters.tensors_reduced == (uint64_t)KEYS * TURNS);
  drop_all(values, KEYS);
  tutti_store_destroy(store);
}

typedef struct {
  tutti_store* store;
  const tutti_tensor* tensor;
  pthread_mutex_t mutex;
  pthread_cond_t submitted;
  tutti_pending* pending;
} next_round;

static void submit_next(void* context, const tutti_error* error) {
  next_round* next = context;
  tutti_pending* pending = NULL;
  CHECK(error == NULL);
  CHECK_OK(submit(next->store, (how){.method = PUSHPULL}, named("second"), next->tensor,
                  next->tensor, &pending));
  pthread_mutex_lock(&next->mutex);
  next->pending = pending;
  pthread_cond_signal(&next->submitted);
  pthread_mutex_unlock(&next->mutex);
}

static void callbacks_and_barriers(void) {
  tutti_store* store = make_store();
  float value = 1;
  tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
  next_round next = {store, tensor, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};
  tutti_pending* first = NULL;
  CHECK_OK(submit(store, (how){.method = PUSHPULL}, named("first"), tensor, tensor, &first));
  CHECK_OK(tutti_pending_then(first, submit_next, &next));
  pthread_mutex_lock(&next.mutex);
  while (next.pending == NULL) pthread_cond_wait(&next.submitted, &next.mutex);
  pthread_mutex_unlock(&next.mutex);
  CHECK_OK(finish(next.pending));
  tutti_pending_destroy(first);
  const float ranks = (float)tutti_store_num_workers(store);
  CHECK(value == ranks * ranks);
  for (int i = 0; i < 100; ++i) CHECK_OK(tutti_store_barrier(store));
  tutti_tensor_destroy(tensor);
  tutti_store_destroy(store);
}

static void ranks_that_join(void) {
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), ranks = tutti_store_num_workers(store);
  array sum = make_array(1, TUTTI_F32), average = make_array(1, TUTTI_F32);
  /* Rank r has r + 1 batches. */
  for (int batch = 0; batch <= rank; ++batch) {
    fill(&sum, 1);
    fill(&average, rank);
    CHECK_OK(pushpull(store, named("g"), sum.tensor));
    CHECK_OK(run(store, (how){.method = PUSHPULL, .op = TUTTI_AVERAGE}, named("a"), average.tensor,
                 average.tensor));
    CHECK(get(&sum, 0) == ranks - batch);
    CHECK(get(&average, 0) == (batch + ranks - 1) / 2.0);
  }
  int last = -1;
  CHECK_OK(tutti_store_join(store, &last));
  CHECK(last == ranks - 1);
  fill(&sum, 1);
  CHECK_OK(pushpull(store, named("g"), sum.tensor));
  CHECK(get(&sum, 0) == ranks);
  drop(&sum);
  drop(&average);
  tutti_store_destroy(store);
}

static void several_stores(void) {
  tutti_store *first = make_store(), *second = make_store();
  const int ranks = tutti_store_num_workers(first);
  array a = make_array(1, TUTTI_F32), b = make_array(1, TUTTI_F32);
  fill(&a, 1);
  fill(&b, 2);
  tutti_pending *of_a = NULL, *of_b = NULL;
  CHECK_OK(submit(first, (how){.method = PUSHPULL}, named("k"), a.tensor, a.tensor, &of_a));
  CHECK_OK(submit(second, (how){.method = PUSHPULL}, named("k"), b.tensor, b.tensor, &of_b));
  CHECK_OK(finish(of_b));
  CHECK_OK(finish(of_a));
  CHECK(get(&a, 0) == ranks);
  CHECK(get(&b, 0) == 2 * ranks);
  tutti_store_destroy(first);
  fill(&b, 1);
  CHECK_OK(pushpull(second, named("k"), b.tensor));
  CHECK(get(&b, 0) == ranks);
  drop(&a);
  drop(&b);
  tutti_store_destroy(second);
}

static void* create_in_thread(void* store) {
  *(tutti_store**)store = make_store();
  return NULL;
}

static void* leave_in_thread(void* store) {
  CHECK_OK(tutti_store_barrier(store));
  tutti_store_destroy(store);
  return NULL;
}

static void threads_create(void) {
  enum { STORES = 4 };
  tutti_store* stores[STORES];
  pthread_t threads[STORES];
  for (int i = 0; i < STORES; ++i) pthread_create(&threads[i], NULL, create_in_thread, &stores[i]);
  for (int i = 0; i < STORES; ++i) pthread_join(threads[i], NULL);
  /* Which thread's store is whose on another rank is not known: all do the same. */
  for (int i = 0; i < STORES; ++i) pthread_create(&threads[i], NULL, leave_in_thread, stores[i]);
  for (int i = 0; i < STORES; ++i) pthread_join(threads[i], NULL);
}

/* What f32 tensors take between nodes in this format. */
static uint64_t bytes_in(const char* kind) {
  tutti_store* store = make_store();
  const int ranks = tutti_store_num_workers(store);
  array value = make_array(30000, TUTTI_F32), exact = make_array(1000, TUTTI_F64);
  tutti_counters before, after;
  CHECK_OK(tutti_store_set_gradient_compression(store, kind, 0));
  for (size_t i = 0; i < value.count; ++i) put(&value, i, (double)(i % 32));
  CHECK_OK(tutti_store_counters(store, &before, sizeof before));
  CHECK_OK(pushpull(store, named("f32"), value.tensor));
  CHECK_OK(tutti_store_counters(store, &after, sizeof after));
  size_t wrong = 0;
  /* Whole numbers up to 8 * 31, which both formats know. */
  for (size_t i = 0; i < value.count; ++i) wrong += get(&value, i) != (double)(i % 32) * ranks;
  CHECK(wrong == 0);
  const double fine = 1 + 1e-12;
  fill(&exact, fine);
  CHECK_OK(pushpull(store, named("f64"), exact.tensor));
  const double off = get(&exact, exact.count - 1) - fine * ranks;
  CHECK(off < 1e-14 && off > -1e-14);
  drop(&value);
  drop(&exact);
  tutti_store_destroy(store);
  return after.bytes_between_nodes - before.bytes_between_nodes;
}

static void compressed_bytes(void) {
  const uint64_t whole = bytes_in("none");
  CHECK(2 * bytes_in("fp16") == whole);
  CHECK(2 * bytes_in("bf16") == whole);
}

static void compression_is_chosen_first(void) {
  tutti_store* store = make_store();
  CHECK_OK(tutti_store_set_gradient_compression(store, "fp16", 0));
  CHECK_OK(tutti_store_set_gradient_compression(store, "none", 0));
  check_alive(store);
  CHECK(tutti_store_set_gradient_compression(store, "fp16", 0) == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("'fp16'");
  CHECK_SAYS("after the first tensor");
  tutti_store_destroy(store);
}

static void compressed_averages(void) {
  tutti_store* store = make_store();
  array value = make_array(5000, TUTTI_F32);
  fill(&value, 60000);
  CHECK_OK(tutti_store_set_gradient_compression(store, "fp16", 0));
  CHECK_OK(run(store, (how){.method = PUSHPULL, .op = TUTTI_AVERAGE}, named("average"),
               value.tensor, value.tensor));
  size_t wrong = 0;
  for (size_t i = 0; i < value.count; ++i)
    wrong += !(get(&value, i) > 59880 && get(&value, i) < 60120);
  CHECK(wrong == 0);
  drop(&value);
  tutti_store_destroy(store);
}

TESTS(together_tests,
      {"tensors in a random order on each rank, with random sizes and priorities, all sum right",
       random_order},
      {"a callback may submit the next round and a barrier meets everyone", callbacks_and_barriers},
      {"a rank that joins contributes nothing while the others go on", ranks_that_join},
      {"several stores live side by side and one after the other", several_stores},
      {"threads may create stores at the same time", threads_create},
      {"compressed, f32 tensors travel between nodes in half the bytes, and the rest as it is",
       compressed_bytes},
      {"what travels is chosen before the first tensor, or the choice is refused",
       compression_is_chosen_first},
      {"a compressed average is finite although the sum is too large for 16 bits",
       compressed_averages});
