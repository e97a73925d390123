/* What users can do wrong: every rank is told key, ranks and values, and the store lives on. The
 * sentences of test/mpi/store_errors_test.cc. */
#include "fixture.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static const how PUSH = {.method = PUSHPULL};

typedef struct {
  int calls, code, has_key, first_rank;
  char key[64];
} heard;

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

static void shapes_differ(void) {
  tutti_store* store = make_store();
  const int last = tutti_store_num_workers(store) - 1;
  float data[6] = {0};
  const int64_t dims[2] = {2, 3}, other[2] = {3, 2};
  tutti_tensor *odd = over(data, other, 2, TUTTI_F32), *right = over(data, dims, 2, TUTTI_F32);
  if (last > 0) {
    const tutti_tensor* mine = tutti_store_rank(store) == last ? odd : right;
    heard what = {0, 0, 0, 0, ""};
    tutti_pending* pending = NULL;
    CHECK_OK(submit(store, PUSH, named("fc1_weight"), mine, mine, &pending));
    for (int i = 0; i < 2; ++i) {
      CHECK(tutti_pending_wait(pending) == TUTTI_MISMATCH);
      check_error(TUTTI_MISMATCH, "fc1_weight", last, last);
    }
    CHECK_SAYS("'fc1_weight'");
    CHECK_SAYS("(2, 3)");
    CHECK_SAYS("(3, 2)");
    CHECK_OK(tutti_pending_then(pending, note_error, &what));
    tutti_pending_destroy(pending);
    CHECK(what.calls == 1 && what.code == TUTTI_MISMATCH && what.has_key);
    CHECK(what.first_rank == last && strcmp(what.key, "fc1_weight") == 0);
  }
  check_alive(store);
  CHECK_OK(pushpull(store, named("fc1_weight"), right));
  tutti_tensor_destroy(odd);
  tutti_tensor_destroy(right);
  tutti_store_destroy(store);
}

static void mismatch(int code, const char* key, const char* of_first, const char* of_others) {
  CHECK(code == TUTTI_MISMATCH);
  check_error(TUTTI_MISMATCH, key, 1, job_size() - 1);
  CHECK_SAYS(of_first);
  CHECK_SAYS(of_others);
}

static void calls_differ(void) {
  if (job_size() == 1) return;
  tutti_store* store = make_store();
  const int first = tutti_store_rank(store) == 0;
  array f32 = make_array(2, TUTTI_F32), i32 = make_array(2, TUTTI_I32);
  const tutti_tensor* mine = (first ? &f32 : &i32)->tensor;
  mismatch(pushpull(store, named("d"), mine), "d", "rank 0 has f32", "i32");
  const how op = {.method = PUSHPULL, .op = first ? TUTTI_SUM : TUTTI_MAX};
  mismatch(run(store, op, named("o"), f32.tensor, f32.tensor), "o", "rank 0 asks for sum", "max");
  mismatch(broadcast(store, named("r"), f32.tensor, first ? 0 : 1), "r", "rank 0 names rank 0",
           "rank 1");
  const how kind = {.method = first ? BROADCAST : PUSHPULL};
  mismatch(run(store, kind, named("k"), f32.tensor, f32.tensor), "k", "rank 0 calls broadcast",
           "pushpull");
  CHECK_OK(pushpull(store, named("d"), f32.tensor));
  CHECK_OK(pushpull(store, named("o"), f32.tensor));
  CHECK_OK(pushpull(store, named("r"), f32.tensor));
  CHECK_OK(pushpull(store, named("k"), f32.tensor));
  check_alive(store);
  drop(&f32);
  drop(&i32);
  tutti_store_destroy(store);
}

static void keys_in_flight(void) {
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), ranks = tutti_store_num_workers(store);
  array value = make_array(1, TUTTI_F32), again = make_array(1, TUTTI_F32);
  tutti_pending *pending = NULL, *none = NULL;
  /* In each turn one rank submits only when the others, whose key waits for it, have tried again.
   */
  for (int late = 0; late < 2 && ranks > 1; ++late) {
    if (rank != late)
      CHECK_OK(submit(store, PUSH, named("twice"), value.tensor, value.tensor, &pending));
    if (rank != late) {
      CHECK(submit(store, PUSH, named("twice"), again.tensor, again.tensor, &none) ==
            TUTTI_DUPLICATE_KEY);
      check_error(TUTTI_DUPLICATE_KEY, "twice", -1, -1);
      CHECK(none == NULL);
    }
    CHECK_OK(tutti_store_barrier(store));
    CHECK_OK(rank == late ? pushpull(store, named("twice"), value.tensor) : finish(pending));
  }
  const tutti_tensor *one = value.tensor, *two = again.tensor;
  const tutti_values values[2] = {{&one, 1}, {&two, 1}};
  const tutti_key keys[2] = {{"a", 0}, {"a", 0}};
  CHECK(submit_list(store, PUSH, 2, keys, values, values, &none) == TUTTI_DUPLICATE_KEY);
  check_error(TUTTI_DUPLICATE_KEY, "a", -1, -1);
  CHECK_SAYS("twice in one call");
  check_alive(store);
  drop(&value);
  drop(&again);
  tutti_store_destroy(store);
}

static void refused(tutti_store* store, const tutti_values* ins, const tutti_values* outs, int code,
                    const char* words) {
  const tutti_key key = named("w");
  tutti_pending* pending = NULL;
  CHECK(submit_list(store, PUSH, 1, &key, ins, outs, &pending) == code);
  CHECK(pending == NULL);
  check_error(code, "w", -1, -1);
  CHECK_SAYS("'w'");
  CHECK_SAYS(words);
}

static void tensors_that_cannot_be_exchanged(void) {
  tutti_store* store = make_store();
  float data[6] = {0};
  const int64_t dims[2] = {2, 3};
  const tutti_device gpu = {TUTTI_GPU, 1}, cpu = {TUTTI_CPU, 0};
  tutti_tensor *tensor = over(data, dims, 2, TUTTI_F32), *flat = on_device(data, 6, TUTTI_F32, cpu),
               *empty = on_device(NULL, 0, TUTTI_F32, cpu), *far = NULL, *none = NULL;
  CHECK_OK(tutti_tensor_create(data, dims, 2, TUTTI_F32, gpu, NULL, NULL, &far));
  const tutti_tensor *both[2] = {tensor, flat}, *nothing = empty, *remote = far;
  const tutti_values one = {both, 1}, two = {both, 2}, other = {both + 1, 1}, no = {NULL, 0},
                     void_one = {&nothing, 1}, far_one = {&remote, 1};
  refused(store, &one, &other, TUTTI_INVALID_ARGUMENT, "(6)");
  refused(store, &two, &one, TUTTI_INVALID_ARGUMENT, "(6)");
  const tutti_key key = named("w");
  CHECK(submit_list(store, (how){.method = REDUCE_SCATTER}, 1, &key, &one, &no, NULL) ==
        TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("'w'");
  CHECK_SAYS("output");
  refused(store, &one, &void_one, TUTTI_INVALID_ARGUMENT, "(0)");
  refused(store, &far_one, &far_one, TUTTI_UNSUPPORTED, "gpu(1)");
  CHECK(tutti_tensor_create(NULL, dims, 2, TUTTI_F32, cpu, NULL, NULL, &none) ==
        TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("(2, 3)");
  CHECK_OK(pushpull(store, named("w"), tensor));
  check_alive(store);
  tutti_tensor_destroy(tensor);
  tutti_tensor_destroy(flat);
  tutti_tensor_destroy(empty);
  tutti_tensor_destroy(far);
  tutti_store_destroy(store);
}

static void gpus_keep_nobody(void) {
  tutti_store* store = make_store();
  float value = 1;
  const tutti_device gpu = {TUTTI_GPU, 0}, cpu = {TUTTI_CPU, 0};
  tutti_tensor *here = on_device(&value, 1, TUTTI_F32, cpu),
               *far = on_device(&value, 1, TUTTI_F32, gpu);
  if (tutti_store_rank(store) == 0) CHECK(pushpull(store, named("w"), far) == TUTTI_UNSUPPORTED);
  CHECK_OK(pushpull(store, named("w"), here));
  CHECK(value == (float)tutti_store_num_workers(store));
  tutti_tensor_destroy(here);
  tutti_tensor_destroy(far);
  tutti_store_destroy(store);
}

static int fork_is_named(int code) {
  return code == TUTTI_UNSUPPORTED && strstr(tutti_last_error()->message, "fork") != NULL;
}

static void forked_children(void) {
  tutti_store* store = make_store();
  char rank[16];
  snprintf(rank, sizeof rank, "%d", job_rank());
  tutti_store* group_of_one = make_store_with(SETTINGS("ranks", rank));
  float value = 1;
  tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
  array other = make_array(1, TUTTI_F32);
  fill(&other, 1);
  /* The last rank submits when all children are gone: until then the others' calls are not done. */
  const int late = job_rank() == job_size() - 1;
  tutti_pending* pending = NULL;
  if (!late)
    CHECK_OK(submit(store, PUSH, named("in flight"), other.tensor, other.tensor, &pending));
  const pid_t child = fork();
  if (child == 0) {
    const int all = fork_is_named(pushpull(store, named("w"), tensor)) &&
                    fork_is_named(broadcast(store, named("w"), tensor, 0)) &&
                    fork_is_named(tutti_store_barrier(store)) &&
                    fork_is_named(tutti_store_join(store, NULL)) &&
                    fork_is_named(pushpull(group_of_one, named("w"), tensor)) &&
                    (late || fork_is_named(tutti_pending_wait(pending))) &&
                    (late || fork_is_named(tutti_pending_then(pending, note_error, NULL)));
    tutti_store_destroy(store);
    _exit(all && (late || fork_is_named(tutti_pending_wait(pending))) ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK_OK(tutti_store_barrier(store));
  CHECK_OK(late ? pushpull(store, named("in flight"), other.tensor) : finish(pending));
  CHECK(get(&other, 0) == job_size());
  drop(&other);
  check_alive(group_of_one);
  check_alive(store);
  tutti_tensor_destroy(tensor);
  tutti_store_destroy(group_of_one);
  tutti_store_destroy(store);
}

static void kinds_of_key(void) {
  tutti_store* store = make_store();
  float value = 0;
  tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
  CHECK_OK(pushpull(store, named("text"), tensor));
  CHECK(pushpull(store, numbered(3), tensor) == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("3");
  CHECK_SAYS("integer");
  CHECK_SAYS("string");
  CHECK(tutti_last_error()->has_key && tutti_last_error()->key.text == NULL);
  CHECK(tutti_last_error()->key.integer == 3);
  check_alive(store);
  tutti_tensor_destroy(tensor);
  tutti_store_destroy(store);
}

TESTS(error_tests,
      {"shapes that differ between ranks are an error on every rank that names both",
       shapes_differ},
      {"dtypes, operations, roots and kinds of call that differ are errors on every rank",
       calls_differ},
      {"a key in flight cannot be used again, and is free before its Pending is done",
       keys_in_flight},
      {"tensors that cannot be exchanged are refused at the call, and their key stays free",
       tensors_that_cannot_be_exchanged},
      {"a rank that is refused a tensor on a GPU keeps nobody from the key", gpus_keep_nobody},
      {"a forked child cannot use its parent's store, and the parent goes on", forked_children},
      {"integer and string keys do not mix in one store", kinds_of_key});
