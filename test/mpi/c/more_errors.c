/* Methods, lateness and joined roots, and keys from anywhere: the last sentences of
 * test/mpi/store_errors_test.cc, and those of test/mpi/hostile_keys_test.cc. */
#include "fixture.h"

#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

static void missing_methods(void) {
  tutti_store* store = make_store();
  float value = 1;
  tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
  const tutti_tensor* one = tensor;
  const tutti_values values = {&one, 1};
  const tutti_key key = named("k");
  const tutti_optimizer sgd = {.name = "sgd"};
  tutti_pending* pending = NULL;
#define LACKS(call, method, instead)    \
  do {                                  \
    CHECK((call) == TUTTI_UNSUPPORTED); \
    CHECK_SAYS(method);                 \
    CHECK_SAYS("dist_sync_mpi");        \
    CHECK_SAYS(instead);                \
  } while (0)
  LACKS(tutti_store_push(store, 1, &key, &values, NULL, &pending), "push", "pushpull");
  LACKS(tutti_store_pull(store, 1, &key, &values, NULL, &pending), "pull", "pushpull");
  LACKS(tutti_store_init(store, 1, &key, &values), "init", "broadcast");
  LACKS(tutti_store_row_sparse_pull(store, 1, &key, &values, &one), "row_sparse_pull", "");
  LACKS(tutti_store_set_optimizer(store, &sgd), "set_optimizer", "after pushpull");
  LACKS(tutti_store_save_optimizer_states(store, "states", 0), "save_optimizer_states", "");
  LACKS(tutti_store_load_optimizer_states(store, "states"), "load_optimizer_states", "");
  LACKS(tutti_store_set_gradient_compression(store, "2bit", 0), "2bit", "fp16");
#undef LACKS
  CHECK(pending == NULL);
  check_alive(store);
  tutti_tensor_destroy(tensor);
  tutti_store_destroy(store);
}

static void late_ranks(void) {
  if (job_size() == 1) return;
  tutti_store* store = make_store_with(
      SETTINGS("key_timeout", "1", "stall_report_after", "0.2", "log_level", "off"));
  float value = 0;
  tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
  const int last = tutti_store_num_workers(store) - 1;
  /* The latecomer gets the same error instead of being paired with the others' next use. */
  if (tutti_store_rank(store) == last) nap(1600);
  CHECK(pushpull(store, named("late"), tensor) == TUTTI_TIMEOUT);
  check_error(TUTTI_TIMEOUT, "late", last, last);
  CHECK_OK(pushpull(store, named("late"), tensor));
  check_alive(store);
  tutti_tensor_destroy(tensor);
  tutti_store_destroy(store);
}

static void wrong_roots(void) {
  tutti_store* store = make_store_with(SETTINGS("log_level", "off"));
  const int ranks = tutti_store_num_workers(store);
  float value = 0;
  tutti_tensor* tensor = over(&value, NULL, 0, TUTTI_F32);
  CHECK(broadcast(store, named("w"), tensor, ranks) == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("root");
  CHECK(broadcast(store, named("w"), tensor, -1) == TUTTI_INVALID_ARGUMENT);
  CHECK_SAYS("-1");
  if (ranks > 1) {
    if (tutti_store_rank(store) != 0) {
      CHECK(broadcast(store, named("w"), tensor, 0) != TUTTI_OK);
      CHECK_SAYS("'w'");
      CHECK_SAYS("rank 0");
      CHECK_SAYS("joined");
    }
    CHECK_OK(tutti_store_join(store, NULL));
  }
  check_alive(store);
  tutti_tensor_destroy(tensor);
  tutti_store_destroy(store);
}

enum { LONGEST_KEY = 1024, LONGEST_ERROR = 1000, LONGEST_LINE = 2000, HOSTILE = 7 };

/* A key, and a part of how it is described. A null character is a key's end. */
typedef struct {
  const char *key, *shown;
} hostile_key;

static void hostile_keys(hostile_key keys[HOSTILE]) {
  static char longest[LONGEST_KEY + 1], lines[LONGEST_KEY + 1];
  memset(longest, 'k', LONGEST_KEY);
  memset(lines, '\n', LONGEST_KEY);
  const hostile_key all[HOSTILE] = {
      {"\n[error] forged", "'\\n[error] forged'"},
      {"\x1b[31mred", "'\\x1b[31mred'"},
      {"w' and rank 7's", "'w\\' and rank 7\\'s'"},
      {longest, "...kkkk"},
      {lines, "\\n...\\n"},
      {"not UTF-8: \xff\xc3", "'not UTF-8: \\xff\\xc3'"},
      {"turned \xe2\x80\xae around\xe2\x80\xa8", "'turned \\u202e around\\u2028'"},
  };
  memcpy(keys, all, sizeof all);
}

static int has_control_characters(const char* text) {
  for (; *text != '\0'; ++text) {
    if (iscntrl((unsigned char)*text)) return 1;
  }
  return 0;
}

static void hostile_error(int code, int expected, const hostile_key* of, const char* reason) {
  CHECK(code == expected);
  check_error(expected, of->key, -1, -1);
  CHECK_SAYS(of->shown);
  CHECK_SAYS(reason);
  CHECK(!has_control_characters(tutti_last_error()->message));
  CHECK(strlen(tutti_last_error()->message) < LONGEST_ERROR);
}

static void errors_of_hostile_keys(void) {
  tutti_store* store = make_store_with(SETTINGS("log_level", "off"));
  const int ranks = tutti_store_num_workers(store);
  const int odd = tutti_store_rank(store) == ranks - 1;
  float data[6] = {0};
  const int64_t dims[2] = {odd ? 3 : 2, odd ? 2 : 3}, six[1] = {6};
  tutti_tensor *tensor = over(data, dims, 2, TUTTI_F32), *flat = over(data, six, 1, TUTTI_F32);
  hostile_key all[HOSTILE];
  hostile_keys(all);
  for (int i = 0; i < HOSTILE; ++i) {
    const tutti_key key = named(all[i].key), keys[2] = {key, key};
    if (ranks > 1)
      hostile_error(pushpull(store, key, tensor), TUTTI_MISMATCH, &all[i], "shapes differ");
    hostile_error(run(store, (how){.method = PUSHPULL}, key, tensor, flat), TUTTI_INVALID_ARGUMENT,
                  &all[i], "same dtype and shape");
    const tutti_tensor* one = flat;
    const tutti_values values[2] = {{&one, 1}, {&one, 1}};
    hostile_error(tutti_store_pushpull(store, 2, keys, values, values, NULL, NULL),
                  TUTTI_DUPLICATE_KEY, &all[i], "twice in one call");
  }
  check_alive(store);
  tutti_tensor_destroy(tensor);
  tutti_tensor_destroy(flat);
  tutti_store_destroy(store);
}

/* Failures under each key, for which nobody waits. */
static void fail_unheard(const hostile_key* keys) {
  tutti_store* store = make_store_with(SETTINGS("log_level", "warning"));
  const int odd = tutti_store_rank(store) == tutti_store_num_workers(store) - 1;
  float data[6] = {0};
  const int64_t dims[2] = {odd ? 3 : 2, odd ? 2 : 3};
  tutti_tensor* tensor = over(data, dims, 2, TUTTI_F32);
  const tutti_tensor* one = tensor;
  const tutti_values values = {&one, 1};
  for (int i = 0; i < HOSTILE; ++i) {
    const tutti_key key = named(keys[i].key);
    CHECK_OK(tutti_store_pushpull(store, 1, &key, &values, &values, NULL, NULL));
  }
  check_alive(store);
  tutti_store_destroy(store);
  tutti_tensor_destroy(tensor);
}

static void log_of_hostile_keys(void) {
  if (job_size() == 1) return;
  hostile_key keys[HOSTILE];
  hostile_keys(keys);
  FILE* const log = tmpfile();
  const int before = dup(STDERR_FILENO);
  dup2(fileno(log), STDERR_FILENO);
  fail_unheard(keys);
  dup2(before, STDERR_FILENO);
  close(before);
  rewind(log);
  static char line[2 * LONGEST_LINE];
  int told[HOSTILE] = {0};
  while (fgets(line, sizeof line, log) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    CHECK(!has_control_characters(line));
    CHECK(strstr(line, "tutti[rank") != NULL);
    CHECK(strlen(line) < LONGEST_LINE);
    for (int i = 0; i < HOSTILE; ++i) {
      if (strstr(line, keys[i].shown) == NULL) continue;
      ++told[i];
      CHECK(strstr(line, "failed and nobody waited") != NULL);
      CHECK(strstr(line, "shapes differ") != NULL);
    }
  }
  for (int i = 0; i < HOSTILE; ++i) CHECK(told[i] == 1);
  fclose(log);
}

TESTS(more_error_tests,
      {"methods that this type does not have say so and what to call instead", missing_methods},
      {"a tensor that one rank never submits times out and names the missing rank", late_ranks},
      {"a joined rank as root is an error, and so are roots that do not exist", wrong_roots},
      {"an error is one short line that has its reason, whatever its key holds",
       errors_of_hostile_keys},
      {"each failure that nobody waited for is one line of the log, whatever its key holds",
       log_of_hostile_keys});
