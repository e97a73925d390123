/* What C programs do with the values that servers keep. Every worker of a job runs it; the job's
 * only argument is a file for states. Ends with the number of checks that failed. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tutti/c.h>

enum { ROWS = 4, COLUMNS = 3, COUNT = ROWS * COLUMNS };

static int failures = 0;

static void check(int holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "failed: %s (%s)\n", what, tutti_last_error()->message);
}
#define CHECK(holds) check((holds), #holds)
#define CHECK_OK(call) CHECK((call) == TUTTI_OK)

static tutti_tensor* over(void* data, const int64_t* dims, size_t rank, int dtype) {
  tutti_tensor* tensor = NULL;
  CHECK_OK(tutti_tensor_create(data, dims, rank, dtype, (tutti_device){TUTTI_CPU, 0}, NULL, NULL,
                               &tensor));
  return tensor;
}

static int wait_for(int submitted, tutti_pending* const* pending) {
  const int code = submitted == TUTTI_OK ? tutti_pending_wait(*pending) : submitted;
  tutti_pending_destroy(*pending);
  return code;
}

static const tutti_key key = {"table", 0};

static int push(tutti_store* store, tutti_tensor* tensor) {
  const tutti_values values = {(const tutti_tensor* const*)&tensor, 1};
  tutti_pending* pending = NULL;
  return wait_for(tutti_store_push(store, 1, &key, &values, NULL, &pending), &pending);
}

static int pull(tutti_store* store, tutti_tensor* tensor) {
  const tutti_values values = {(const tutti_tensor* const*)&tensor, 1};
  tutti_pending* pending = NULL;
  return wait_for(tutti_store_pull(store, 1, &key, &values, NULL, &pending), &pending);
}

/* The rows 0 and 2, by floats that stand there more than once. */
static void check_rows(tutti_store* store, tutti_tensor* table, const float* data) {
  float ids[4] = {2, 0, 2, 0};
  tutti_tensor* rows = over(ids, (const int64_t[]){2, 2}, 2, TUTTI_F32);
  const tutti_values values = {(const tutti_tensor* const*)&table, 1};
  CHECK_OK(tutti_store_row_sparse_pull(store, 1, &key, &values, (const tutti_tensor* const*)&rows));
  for (int i = 0; i < COUNT; ++i) CHECK((data[i] != 0) == (i / COLUMNS % 2 == 0));
  ids[0] = ROWS;
  CHECK(tutti_store_row_sparse_pull(store, 1, &key, &values, (const tutti_tensor* const*)&rows) ==
        TUTTI_INVALID_ARGUMENT);
  CHECK(strstr(tutti_last_error()->message, "4 is no row") != NULL);
  tutti_tensor_destroy(rows);
}

struct caller {
  tutti_store* store;
  tutti_tensor* table;
  tutti_tensor* row;
  int refused;
};

static void try_to_block(void* context, const tutti_error* error) {
  struct caller* const caller = context;
  const tutti_values values = {(const tutti_tensor* const*)&caller->table, 1};
  const tutti_tensor* const row = caller->row;
  const tutti_key fresh = {"fresh", 0};
  if (error != NULL) return;
  const int codes[] = {tutti_store_barrier(caller->store), tutti_store_close(caller->store),
                       tutti_store_init(caller->store, 1, &fresh, &values),
                       tutti_store_row_sparse_pull(caller->store, 1, &key, &values, &row)};
  for (int i = 0; i < 4; ++i) caller->refused += codes[i] == TUTTI_INVALID_ARGUMENT;
}

/* In a callback what blocks is refused, and the store is as before. */
static void check_callback(tutti_store* store, tutti_tensor* table) {
  float id = 0;
  struct caller caller = {store, table, over(&id, NULL, 0, TUTTI_F32), 0};
  const tutti_values values = {(const tutti_tensor* const*)&table, 1};
  tutti_pending* pending = NULL;
  CHECK_OK(tutti_store_pull(store, 1, &key, &values, NULL, &pending));
  CHECK_OK(tutti_pending_then(pending, try_to_block, &caller));
  CHECK_OK(wait_for(TUTTI_OK, &pending));
  CHECK_OK(tutti_store_barrier(store)); /* ended by the thread that calls back */
  CHECK(caller.refused == 4);
  tutti_tensor_destroy(caller.row);
}

/* Two bits of each gradient: 0.5 a worker, then an optimizer's step with momentum. */
static void check_updates(tutti_store* store, tutti_tensor* table, float* data, const char* file) {
  const float workers = (float)tutti_store_num_workers(store);
  const tutti_parameter parameters[] = {{"learning_rate", 1}, {"momentum", 0.5}};
  const tutti_optimizer sgd = {"sgd", parameters, 2, NULL, 0};
  CHECK_OK(tutti_store_set_optimizer(store, &sgd));
  for (int i = 0; i < COUNT; ++i) data[i] = 0.75F;
  CHECK_OK(push(store, table));
  if (tutti_store_rank(store) == 0) CHECK_OK(tutti_store_save_optimizer_states(store, file, 1));
  CHECK_OK(pull(store, table));
  for (int i = 0; i < COUNT; ++i) CHECK(data[i] == 1 - 0.5F * workers);
  CHECK_OK(tutti_store_load_optimizer_states(store, file));
  memset(data, 0, COUNT * sizeof *data);
  CHECK_OK(push(store, table)); /* 0.25 is left of the last, too little to be sent */
  CHECK_OK(pull(store, table));
  for (int i = 0; i < COUNT; ++i) CHECK(data[i] == 1 - 0.75F * workers);
}

static void use_store(const char* file) {
  tutti_store* store = NULL;
  tutti_store* beside = NULL;
  CHECK_OK(tutti_store_create("dist_sync", NULL, &store));
  if (store == NULL) return;
  CHECK(tutti_store_create("dist_sync", NULL, &beside) == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_store_set_gradient_compression(store, "2bit", NAN) == TUTTI_INVALID_ARGUMENT);
  CHECK_OK(tutti_store_set_gradient_compression(store, "2bit", 0.5));
  float data[COUNT];
  for (int i = 0; i < COUNT; ++i) data[i] = 1;
  tutti_tensor* table = over(data, (const int64_t[]){ROWS, COLUMNS}, 2, TUTTI_F32);
  const tutti_values values = {(const tutti_tensor* const*)&table, 1};
  CHECK_OK(tutti_store_init(store, 1, &key, &values));
  check_rows(store, table, data);
  check_callback(store, table);
  check_updates(store, table, data, file);
  int dead = -1;
  CHECK_OK(tutti_store_num_dead_node(store, &dead));
  CHECK(dead == 0);
  printf("worker %d: %d checks failed\n", tutti_store_rank(store), failures);
  tutti_tensor_destroy(table);
  tutti_store_destroy(store);
}

/* One store after another, each with its own values. */
int main(int count, char** words) {
  if (count != 2) return 100;
  use_store(words[1]);
  if (failures == 0) use_store(words[1]);
  return failures;
}
