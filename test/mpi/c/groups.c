/* Stores over some of the job's ranks; those that are in no group of a test go on to the next one.
 * The sentences of test/mpi/groups_test.cc. */
#include <pthread.h>
#include <stdio.h>

#include "fixture.h"

enum { MOST_RANKS = 64, KEYS = 24 };

/* Ranks of the job, ascending. */
typedef struct {
  int ranks[MOST_RANKS], count;
} group;

static void add(group* to, int rank) {
  to->ranks[to->count++] = rank;
}

static group every(int step, int first) {
  group all = {.count = 0};
  for (int rank = first; rank < job_size(); rank += step) add(&all, rank);
  return all;
}

static int has(const group* all, int rank) {
  int found = 0;
  for (int i = 0; i < all->count; ++i) found = found || all->ranks[i] == rank;
  return found;
}

/* As the option takes it, the last rank first. */
static const char* listed(const group* all, char* text) {
  char* end = text;
  *end = '\0';
  for (int i = all->count; i-- > 0;)
    end += sprintf(end, "%s%d", end == text ? "" : ",", all->ranks[i]);
  return text;
}

static tutti_store* over_group(const group* all) {
  char text[8 * MOST_RANKS];
  return make_store_with(SETTINGS("ranks", listed(all, text)));
}

/* Tensors of many sizes in a random order of this rank's own; each must come out as the sum over
 * the group's ranks, which bring the values of their ranks in the job. */
static void exchange(tutti_store* store, const group* of, int turns, uint64_t salt) {
  uint64_t own = 1000 * salt + (uint64_t)job_rank();
  size_t order[KEYS], wrong = 0;
  array arrays[KEYS];
  tutti_pending* pending[KEYS];
  for (size_t key = 0; key < KEYS; ++key) arrays[key] = make_array(1 + key * key * 97, TUTTI_F32);
  for (int turn = 0; turn < turns; ++turn) {
    shuffle(&own, order, KEYS);
    for (size_t i = 0; i < KEYS; ++i) {
      const array* mine = &arrays[order[i]];
      fill_values(mine, job_rank(), order[i], turn);
      CHECK_OK(submit(store, (how){.method = PUSHPULL}, numbered((int64_t)order[i]), mine->tensor,
                      mine->tensor, &pending[i]));
    }
    for (size_t i = 0; i < KEYS; ++i) CHECK_OK(finish(pending[i]));
    for (size_t key = 0; key < KEYS; ++key) {
      for (size_t i = 0; i < arrays[key].count; ++i) {
        float sum = 0;
        for (int n = 0; n < of->count; ++n) sum += value_of(of->ranks[n], key, turn, i);
        wrong += floats(&arrays[key])[i] != sum;
      }
    }
  }
  CHECK(wrong == 0);
  drop_all(arrays, KEYS);
}

static group row_of(int rows, int columns) {
  group row = {.count = 0};
  for (int c = 0; c < columns && job_rank() < rows * columns; ++c)
    add(&row, job_rank() / columns * columns + c);
  return row;
}

static group column_of(int rows, int columns) {
  group column = {.count = 0};
  for (int r = 0; r < rows && job_rank() < rows * columns; ++r)
    add(&column, r * columns + job_rank() % columns);
  return column;
}

static void sums_of_a_group(void) {
  const group odd = every(2, 1);
  if (!has(&odd, job_rank())) return;
  tutti_store* store = over_group(&odd);
  CHECK(tutti_store_rank(store) == job_rank() / 2);
  CHECK(tutti_store_num_workers(store) == odd.count);
  exchange(store, &odd, 3, 1);
  array mine = make_array(1, TUTTI_F64);
  fill(&mine, job_rank());
  CHECK_OK(broadcast(store, numbered(1000), mine.tensor, odd.count - 1));
  CHECK(get(&mine, 0) == odd.ranks[odd.count - 1]);
  CHECK_OK(tutti_store_barrier(store));
  int last = -1;
  CHECK_OK(tutti_store_join(store, &last));
  CHECK(last >= 0 && last < odd.count);
  drop(&mine);
  tutti_store_destroy(store);
}

/* What a thread does beside another. */
typedef struct {
  tutti_store* store; /* null: the thread makes one of its own */
  group ranks;
  int turns;
  uint64_t salt;
} work;

static void* do_work(void* context) {
  const work* mine = context;
  tutti_store* store = mine->store == NULL ? over_group(&mine->ranks) : mine->store;
  exchange(store, &mine->ranks, mine->turns, mine->salt);
  if (mine->store == NULL) tutti_store_destroy(store);
  return NULL;
}

static void rows_and_columns(void) {
  static const int meshes[][2] = {{1, 2}, {2, 2}, {2, 3}, {4, 2}};
  for (int i = 0; i < 4; ++i) {
    const int rows = meshes[i][0], columns = meshes[i][1];
    if (job_size() < rows * columns || job_rank() >= rows * columns) continue;
    work along = {NULL, row_of(rows, columns), 10, 2};
    work across = {NULL, column_of(rows, columns), 10, 3};
    along.store = over_group(&along.ranks);
    across.store = over_group(&across.ranks);
    pthread_t busy;
    pthread_create(&busy, NULL, do_work, &along);
    do_work(&across);
    pthread_join(busy, NULL);
    tutti_store_destroy(along.store);
    tutti_store_destroy(across.store);
  }
}

static void threads_create_groups(void) {
  if (job_size() < 4 || job_rank() >= 4) return;
  for (int turn = 0; turn < 5; ++turn) {
    /* No order holds between the two: half of the ranks come to the row first. */
    work along = {NULL, row_of(2, 2), 1, 4}, across = {NULL, column_of(2, 2), 1, 5};
    pthread_t other;
    pthread_create(&other, NULL, do_work, &along);
    do_work(&across);
    pthread_join(other, NULL);
  }
}

static void sixteen_groups(void) {
  uint64_t shared = 7;
  group groups[16];
  tutti_store* stores[16];
  for (int i = 0; i < 16; ++i) {
    groups[i].count = 0;
    for (int rank = 0; rank < job_size(); ++rank) {
      if (draw(&shared) % 2 == 0 || rank == i % job_size()) add(&groups[i], rank);
    }
    stores[i] = has(&groups[i], job_rank()) ? over_group(&groups[i]) : NULL;
  }
  for (int i = 0; i < 16; ++i) {
    if (stores[i] != NULL) exchange(stores[i], &groups[i], 2, 100 + (uint64_t)i);
  }
  for (int i = 0; i < 16; ++i) tutti_store_destroy(stores[i]);
}

static void sixteen_busy_groups(void) {
  if (job_size() < 2) return;
  const int half = (job_size() + 1) / 2, each = half > 2 ? half : 2;
  work all[16];
  pthread_t threads[16];
  for (int i = 0; i < 16; ++i) {
    /* As many ranks each, side by side around a ring: each group shares ranks with others. */
    all[i] = (work){NULL, {.count = 0}, 2, 12};
    for (int n = 0; n < each; ++n) add(&all[i].ranks, (i + n) % job_size());
    if (has(&all[i].ranks, job_rank())) all[i].store = over_group(&all[i].ranks);
  }
  for (int i = 0; i < 16; ++i) {
    if (all[i].store != NULL) pthread_create(&threads[i], NULL, do_work, &all[i]);
  }
  for (int i = 0; i < 16; ++i) {
    if (all[i].store != NULL) pthread_join(threads[i], NULL);
  }
  for (int i = 0; i < 16; ++i) tutti_store_destroy(all[i].store);
}

static void groups_beside_a_busy_store(void) {
  work all = {make_store(), every(1, 0), 30, 6};
  pthread_t busy;
  pthread_create(&busy, NULL, do_work, &all);
  for (int turn = 0; turn < 4; ++turn) {
    work half = {NULL, every(2, turn % 2), 2, 7};
    if (has(&half.ranks, job_rank())) do_work(&half);
  }
  pthread_join(busy, NULL);
  tutti_store_destroy(all.store);
}

static void the_same_ranks_again(void) {
  if (job_size() < 2 || job_rank() > 1) return;
  const group two = {{0, 1}, 2};
  for (int turn = 0; turn < 3; ++turn) {
    tutti_store *first = over_group(&two), *second = over_group(&two);
    exchange(second, &two, 2, 8);
    exchange(first, &two, 2, 9);
    tutti_store_destroy(first);
    tutti_store_destroy(second);
  }
}

static void a_group_of_one(void) {
  /* The ranks come to it one after the other, each while the others do something else. */
  nap(20 * job_rank());
  group alone = {.count = 0};
  add(&alone, job_rank());
  tutti_store* store = over_group(&alone);
  CHECK(tutti_store_rank(store) == 0 && tutti_store_num_workers(store) == 1);
  CHECK(strcmp(tutti_store_type(store), "dist_sync_mpi") == 0);
  exchange(store, &alone, 2, 10);
  CHECK_OK(tutti_store_barrier(store));
  int last = -1;
  CHECK_OK(tutti_store_join(store, &last));
  CHECK(last == 0);
  array shared = allocate_array(store, 16, TUTTI_F32);
  fill(&shared, 2);
  CHECK_OK(pushpull(store, numbered(1000), shared.tensor));
  CHECK(unlike(&shared, 2) == 0);
  const tutti_tensor* one = shared.tensor;
  const tutti_values values = {&one, 1};
  const tutti_key key = numbered(1);
  CHECK(tutti_store_init(store, 1, &key, &values) == TUTTI_UNSUPPORTED);
  drop(&shared);
  tutti_store_destroy(store);
}

static void impossible_lists(void) {
  const int rank = job_rank(), size = job_size();
  const int lists[4][2] = {{rank, size}, {rank, -1}, {rank, rank}, {(rank + 1) % size, 0}};
  char said[4][64] = {"", "from 0 on", "each once", ""};
  snprintf(said[0], sizeof said[0], "the job's ranks are 0 to %d", size - 1);
  snprintf(said[3], sizeof said[3], "rank %d creates a store over", rank);
  for (int i = 0; i < (size > 1 ? 4 : 3); ++i) {
    char text[32];
    const int length = snprintf(text, sizeof text, "%d", lists[i][0]);
    if (i < 3) snprintf(text + length, sizeof text - (size_t)length, ",%d", lists[i][1]);
    tutti_store* store = NULL;
    CHECK(create_with(SETTINGS("ranks", text), &store) == TUTTI_INVALID_ARGUMENT);
    CHECK(store == NULL);
    CHECK_SAYS(said[i]);
  }
  tutti_store* store = make_store();
  check_alive(store);
  tutti_store_destroy(store);
}

static void a_late_group(void) {
  if (job_size() < 2 || job_rank() > 1) return;
  const group two = {{0, 1}, 2};
  if (job_rank() == 0) {
    tutti_store* none = NULL;
    CHECK(create_with(SETTINGS("ranks", "0,1", "create_timeout", "0.3"), &none) == TUTTI_TIMEOUT);
  } else {
    nap(600);
  }
  tutti_store* store = over_group(&two);
  exchange(store, &two, 1, 11);
  tutti_store_destroy(store);
}

TESTS(group_tests, {"a group sums over its own ranks, which are 0, 1, ... in it", sums_of_a_group},
      {"rows and columns of a mesh are busy at once, from a thread each", rows_and_columns},
      {"threads may create stores over different groups at the same time", threads_create_groups},
      {"sixteen groups live side by side and each sums for itself", sixteen_groups},
      {"sixteen groups move data at once, from a thread each", sixteen_busy_groups},
      {"groups are created and closed while the store over all ranks moves data",
       groups_beside_a_busy_store},
      {"the same ranks create one store after the other, and several at once",
       the_same_ranks_again},
      {"a group of one rank exchanges with itself and needs nobody", a_group_of_one},
      {"a list of ranks that cannot be is refused, and creates nothing", impossible_lists},
      {"a group whose other ranks do not come times out, and can be created later", a_late_group});
