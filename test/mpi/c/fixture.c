#include "fixture.h"

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static int failures = 0;

void check_failed(const char* file, int line, const char* what) {
  pthread_mutex_lock(&counting);
  ++failures;
  pthread_mutex_unlock(&counting);
  fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", file, line, what,
          tutti_last_error()->message);
}

int failed_checks(void) {
  pthread_mutex_lock(&counting);
  const int now = failures;
  pthread_mutex_unlock(&counting);
  return now;
}

int create_with(const char* const* settings, tutti_store** store) {
  tutti_options* options = NULL;
  *store = NULL;
  int code = tutti_options_from_env(&options);
  for (; code == TUTTI_OK && *settings != NULL; settings += 2)
    code = tutti_options_set(options, settings[0], settings[1]);
  if (code == TUTTI_OK) code = tutti_store_create("dist_sync_mpi", options, store);
  tutti_options_destroy(options);
  return code;
}

tutti_store* make_store_with(const char* const* settings) {
  tutti_store* store = NULL;
  if (create_with(settings, &store) == TUTTI_OK) return store;
  fprintf(stderr, "no store: %s\n", tutti_last_error()->message);
  exit(1);
}

tutti_store* make_store(void) {
  return make_store_with(SETTINGS(NULL));
}

void check_alive(tutti_store* store) {
  float value = 1;
  tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
  CHECK_OK(pushpull(store, named("alive"), tensor));
  CHECK(value == (float)tutti_store_num_workers(store));
  tutti_tensor_destroy(tensor);
}

static struct { int rank, size; } job = {-1, 0};

static void look_around(void) {
  if (job.rank >= 0) return;
  tutti_store* store = make_store();
  job.rank = tutti_store_rank(store);
  job.size = tutti_store_num_workers(store);
  tutti_store_destroy(store);
}

int job_rank(void) {
  look_around();
  return job.rank;
}

int job_size(void) {
  look_around();
  return job.size;
}

tutti_key named(const char* text) {
  tutti_key key = {NULL, 0};
  key.text = text;
  return key;
}

tutti_key numbered(int64_t number) {
  tutti_key key = {NULL, 0};
  key.integer = number;
  return key;
}

int submit_list(tutti_store* store, how call, size_t count, const tutti_key* keys,
                const tutti_values* ins, const tutti_values* outs, tutti_pending** pending) {
  tutti_call_options options = {0, 0};
  options.priority = call.priority;
  options.op = call.op;
  if (call.method == BROADCAST)
    return tutti_store_broadcast(store, count, keys, outs, call.root, &options, pending);
  return tutti_store_pushpull(store, count, keys, ins, outs, &options, pending);
}

int submit(tutti_store* store, how call, tutti_key key, const tutti_tensor* in,
           const tutti_tensor* out, tutti_pending** pending) {
  const tutti_values ins = {&in, 1}, outs = {&out, 1};
  *pending = NULL;
  return submit_list(store, call, 1, &key, &ins, &outs, pending);
}

int finish(tutti_pending* pending) {
  const int code = tutti_pending_wait(pending);
  tutti_pending_destroy(pending);
  return code;
}

int run(tutti_store* store, how call, tutti_key key, const tutti_tensor* in,
        const tutti_tensor* out) {
  tutti_pending* pending = NULL;
  const int code = submit(store, call, key, in, out, &pending);
  return code == TUTTI_OK ? finish(pending) : code;
}

int pushpull(tutti_store* store, tutti_key key, const tutti_tensor* tensor) {
  return run(store, (how){.method = PUSHPULL}, key, tensor, tensor);
}

int broadcast(tutti_store* store, tutti_key key, const tutti_tensor* tensor, int root) {
  return run(store, (how){.method = BROADCAST, .root = root}, key, tensor, tensor);
}
