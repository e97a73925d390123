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

static tutti_store* make_store_with(const char* name, const char* value) {
  tutti_options* options = NULL;
  tutti_store* store = NULL;
  int code = tutti_options_from_env(&options);
  if (code == TUTTI_OK && name != NULL) code = tutti_options_set(options, name, value);
  if (code == TUTTI_OK) code = tutti_store_create("dist_sync_mpi", options, &store);
  tutti_options_destroy(options);
  if (code == TUTTI_OK) return store;
  fprintf(stderr, "no store: %s\n", tutti_last_error()->message);
  exit(1);
}

tutti_store* make_store(void) {
  return make_store_with(NULL, NULL);
}

tutti_store* make_silent_store(void) {
  return make_store_with("log_level", "off");
}

void check_alive(tutti_store* store) {
  float value = 1;
  tutti_tensor* tensor = over(&value);
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

static tutti_tensor* tensor_of(float* data, const int64_t* dims, size_t rank) {
  const tutti_device cpu = {TUTTI_CPU, 0};
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_tensor_create(data, dims, rank, TUTTI_F32, cpu, NULL, NULL, &tensor));
  return tensor;
}

tutti_tensor* over(float* value) {
  return tensor_of(value, NULL, 0);
}

array make_array(size_t count) {
  const int64_t dims[1] = {(int64_t)count};
  array made = {NULL, NULL, NULL, count};
  made.data = made.own = calloc(count + 1, sizeof(float));
  made.tensor = tensor_of(made.data, dims, 1);
  return made;
}

array allocate_array(tutti_store* store, size_t count) {
  const int64_t dims[1] = {(int64_t)count};
  array made = {NULL, NULL, NULL, count};
  CHECK_OK(tutti_store_allocate(store, dims, 1, TUTTI_F32, &made.tensor));
  made.data = tutti_tensor_data(made.tensor);
  return made;
}

void drop(array* gone) {
  tutti_tensor_destroy(gone->tensor);
  free(gone->own);
}

void fill(const array* to, float value) {
  for (size_t i = 0; i < to->count; ++i) to->data[i] = value;
}

size_t unlike(const array* in, float value) {
  size_t unlike = 0;
  for (size_t i = 0; i < in->count; ++i) unlike += in->data[i] != value;
  return unlike;
}

tutti_key named(const char* text) {
  tutti_key key = {NULL, 0};
  key.text = text;
  return key;
}

int submit(tutti_store* store, int op, tutti_key key, const tutti_tensor* in,
           const tutti_tensor* out, tutti_pending** pending) {
  const tutti_values ins = {&in, 1}, outs = {&out, 1};
  tutti_call_options options = {0, 0};
  options.op = op;
  *pending = NULL;
  return tutti_store_pushpull(store, 1, &key, &ins, &outs, &options, pending);
}

int finish(tutti_pending* pending) {
  const int code = tutti_pending_wait(pending);
  tutti_pending_destroy(pending);
  return code;
}

int pushpull(tutti_store* store, tutti_key key, const tutti_tensor* tensor) {
  tutti_pending* pending = NULL;
  const int code = submit(store, TUTTI_SUM, key, tensor, tensor, &pending);
  return code == TUTTI_OK ? finish(pending) : code;
}
