/* Functions that give memory back and call the store meanwhile: the sentences of
 * test/mpi/deleters_test.cc. What hangs is killed by its alarm. */
#include <pthread.h>
#include <unistd.h>

#include "fixture.h"

enum { LONGEST_TEST = 30 }; /* seconds */

/* A tensor's memory that calls its store when it is given back, holding the program's lock. */
typedef struct {
  tutti_store* store;
  pthread_mutex_t lock;
  float value, memory;
  tutti_tensor* of_value;
  pthread_mutex_t beginning;
  pthread_cond_t changed;
  int begun, calls, asked, refused;
  tutti_pending* again;
} caller;

static void start(caller* made, tutti_store* store) {
  const caller fresh = {.store = store, .value = 1, .memory = 1};
  *made = fresh;
  /* The call may be done before `lend` gives its tensor up, and then the deleter runs in there. */
  pthread_mutexattr_t again;
  pthread_mutexattr_init(&again);
  pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&made->lock, &again);
  pthread_mutexattr_destroy(&again);
  pthread_mutex_init(&made->beginning, NULL);
  pthread_cond_init(&made->changed, NULL);
  made->of_value = over(&made->value);
  alarm(LONGEST_TEST);
}

static void stop(caller* gone) {
  alarm(0);
  tutti_tensor_destroy(gone->of_value);
}

static void give_back(void* context) {
  caller* mine = context;
  pthread_mutex_lock(&mine->beginning);
  mine->begun = 1;
  pthread_cond_broadcast(&mine->changed);
  pthread_mutex_unlock(&mine->beginning);
  pthread_mutex_lock(&mine->lock);
  tutti_counters counters;
  mine->asked = tutti_store_rank(mine->store) >= 0 &&
                tutti_store_counters(mine->store, &counters, sizeof counters) == TUTTI_OK;
  mine->refused =
      submit(mine->store, TUTTI_SUM, named("again"), mine->of_value, mine->of_value, &mine->again);
  ++mine->calls;
  pthread_mutex_unlock(&mine->lock);
}

/* A call that is soon the only one to have the caller's memory. */
static tutti_pending* lend(caller* mine, const char* key, int op) {
  const tutti_device cpu = {TUTTI_CPU, 0};
  tutti_tensor* tensor = NULL;
  tutti_pending* pending = NULL;
  CHECK_OK(tutti_tensor_create(&mine->memory, NULL, 0, TUTTI_F32, cpu, give_back, mine, &tensor));
  CHECK_OK(submit(mine->store, op, named(key), tensor, tensor, &pending));
  tutti_tensor_destroy(tensor);
  return pending;
}

static void deleters_have_run(void) {
  tutti_store* store = make_store();
  for (int turn = 0; turn < 50; ++turn) {
    caller mine;
    start(&mine, store);
    array other = make_array(1);
    tutti_pending *first = lend(&mine, "first", TUTTI_SUM), *second = NULL;
    /* A thread that submits may move what was submitted before. */
    pthread_mutex_lock(&mine.lock);
    CHECK_OK(submit(store, TUTTI_SUM, named("second"), other.tensor, other.tensor, &second));
    pthread_mutex_unlock(&mine.lock);
    CHECK_OK(finish(first));
    CHECK(mine.calls == 1 && mine.asked && mine.refused == TUTTI_OK);
    CHECK_OK(finish(second));
    CHECK_OK(finish(mine.again));
    CHECK(mine.value == (float)tutti_store_num_workers(store));
    drop(&other);
    stop(&mine);
  }
  tutti_store_destroy(store);
}

static void* wait_for(void* pending) {
  CHECK_OK(finish(pending));
  return NULL;
}

static void deleters_take_locks(void) {
  tutti_store* store = make_store();
  for (int turn = 0; turn < 10; ++turn) {
    caller mine;
    start(&mine, store);
    array other = make_array(1);
    fill(&other, 1);
    pthread_mutex_lock(&mine.lock);
    pthread_t waiter;
    pthread_create(&waiter, NULL, wait_for, lend(&mine, "first", TUTTI_SUM));
    pthread_mutex_lock(&mine.beginning);
    while (!mine.begun) pthread_cond_wait(&mine.changed, &mine.beginning);
    pthread_mutex_unlock(&mine.beginning);
    CHECK_OK(pushpull(store, named("other"), other.tensor));
    pthread_mutex_unlock(&mine.lock);
    pthread_join(waiter, NULL);
    CHECK(unlike(&other, (float)tutti_store_num_workers(store)) == 0);
    CHECK_OK(finish(mine.again));
    drop(&other);
    stop(&mine);
  }
  tutti_store_destroy(store);
}

static void deleters_of_failed_calls(void) {
  if (job_size() == 1) return;
  tutti_store* store = make_silent_store();
  caller mine;
  start(&mine, store);
  CHECK(finish(lend(&mine, "failing", job_rank() == 0 ? TUTTI_MIN : TUTTI_MAX)) == TUTTI_MISMATCH);
  CHECK(mine.calls == 1);
  CHECK_OK(finish(mine.again));
  CHECK(mine.value == (float)job_size());
  stop(&mine);
  tutti_store_destroy(store);
}

static void deleters_at_close(void) {
  tutti_store* store = make_silent_store();
  caller mine;
  start(&mine, store);
  static const char* const own[] = {"own 0", "own 1", "own 2", "own 3",
                                    "own 4", "own 5", "own 6", "own 7"};
  tutti_pending* alone = lend(&mine, own[job_rank()], TUTTI_SUM);
  tutti_store_destroy(store);
  CHECK(mine.calls == 1 && mine.asked);
  if (job_size() > 1) {
    CHECK(tutti_pending_wait(alone) == TUTTI_ABORTED);
    /* Refused at once, or accepted and ended with the store. */
    CHECK((mine.refused == TUTTI_OK ? tutti_pending_wait(mine.again) : mine.refused) ==
          TUTTI_ABORTED);
  }
  tutti_pending_destroy(alone);
  tutti_pending_destroy(mine.again);
  stop(&mine);
}

TESTS(deleter_tests,
      {"when a call is done its tensors' deleters have run, and may have called the store",
       deleters_have_run},
      {"a deleter may take a lock that a thread holds while it waits for another call",
       deleters_take_locks},
      {"a deleter may call the store when its call fails", deleters_of_failed_calls},
      {"a deleter may call the store while it is closed, and its call ends", deleters_at_close});
