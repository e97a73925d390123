/* Waits of every kind, mixed at random: the second sentence of test/mpi/random_test.cc. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

enum { TENSORS = 9, TURNS = 100, STALL_SECONDS = 1, LONGEST_LINE = 20000 };

typedef struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int called;
} call_back;

static void note_call(void* context, const tutti_error* error) {
  call_back* const to = context;
  CHECK(error == NULL);
  pthread_mutex_lock(&to->mutex);
  to->called = 1;
  pthread_cond_signal(&to->changed);
  pthread_mutex_unlock(&to->mutex);
}

static void await_callback(const tutti_pending* pending) {
  call_back to = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
  CHECK_OK(tutti_pending_then(pending, note_call, &to));
  pthread_mutex_lock(&to.mutex);
  while (!to.called) pthread_cond_wait(&to.changed, &to.mutex);
  pthread_mutex_unlock(&to.mutex);
}

/* For as long as it takes, for a moment again and again, by looking now and then, or for a
 * callback. */
static void await_in_some_way(const tutti_pending* pending, uint64_t* own) {
  int done = 0;
  switch (draw(own) % 4) {
    case 0:
      CHECK_OK(tutti_pending_wait(pending));
      return;
    case 1:
      while (!done)
        CHECK_OK(tutti_pending_wait_for(pending, (double)(draw(own) % 10000) / 1e6, &done));
      return;
    case 2:
      while (!tutti_pending_done(pending)) nap(1);
      return;
    default:
      await_callback(pending);
  }
}

/* In a random order, one by one or in one call. */
static size_t submit_all(tutti_store* store, const array* arrays, uint64_t* own,
                         tutti_pending** pending) {
  static const how pushpulls = {.method = PUSHPULL};
  size_t order[TENSORS];
  tutti_key keys[TENSORS];
  tutti_values values[TENSORS];
  shuffle(own, order, TENSORS);
  for (size_t i = 0; i < TENSORS; ++i) {
    keys[i] = numbered((int64_t)order[i]);
    values[i] = (tutti_values){(const tutti_tensor* const*)&arrays[order[i]].tensor, 1};
  }
  if (draw(own) % 3 == 0) {
    CHECK_OK(submit_list(store, pushpulls, TENSORS, keys, values, values, pending));
    return 1;
  }
  for (size_t i = 0; i < TENSORS; ++i)
    CHECK_OK(submit_list(store, pushpulls, 1, &keys[i], &values[i], &values[i], &pending[i]));
  return TENSORS;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void take_turn(tutti_store* store, const array* arrays, uint64_t* own) {
  tutti_pending* pending[TENSORS];
  const double start = now();
  for (size_t i = 0; i < TENSORS; ++i) fill(&arrays[i], 1);
  const size_t calls = submit_all(store, arrays, own, pending);
  if (draw(own) % 3 == 0) nap(1);
  for (size_t i = 0; i < calls; ++i) {
    await_in_some_way(pending[i], own);
    tutti_pending_destroy(pending[i]);
  }
  for (size_t i = 0; i < TENSORS; ++i)
    CHECK(unlike(&arrays[i], tutti_store_num_workers(store)) == 0);
  /* A sleeping call may go on when the time for a report has come, and none is written. */
  CHECK(now() - start < STALL_SECONDS);
}

static void wait_in_every_way(const char* bytes) {
  static const size_t counts[TENSORS] = {126505, 59, 692, 1186, 45, 36, 24, 49, 2826};
  array arrays[TENSORS];
  tutti_store* store = make_store_with(SETTINGS("stall_report_after", "1", "fusion_bytes", bytes,
                                                "part_bytes", bytes, "log_level", "warning"));
  uint64_t own = 97 + (uint64_t)tutti_store_rank(store);
  for (size_t i = 0; i < TENSORS; ++i) arrays[i] = make_array(counts[i], TUTTI_F32);
  for (int turn = 0; turn < TURNS; ++turn) take_turn(store, arrays, &own);
  tutti_store_destroy(store);
  drop_all(arrays, TENSORS);
}

static void waits(void) {
  FILE* const log = tmpfile();
  const int before = dup(STDERR_FILENO);
  dup2(fileno(log), STDERR_FILENO);
  wait_in_every_way("4096");
  wait_in_every_way("2M");
  dup2(before, STDERR_FILENO);
  close(before);
  rewind(log);
  static char line[LONGEST_LINE];
  while (fgets(line, sizeof line, log) != NULL) {
    fputs(line, stderr);
    CHECK(strstr(line, "nothing has moved") == NULL);
  }
  fclose(log);
}

TESTS(wait_tests, {"calls end without a stall in whatever ways their ranks wait for them", waits});
