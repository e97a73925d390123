/* all_to_all: the sentences of test/mpi/all_to_all_test.cc. */
#include "fixture.h"

#include <stdio.h>

/* One all_to_all: its matrix, by sender and then by receiver, and its tensors. */
typedef struct {
  tutti_store* store;
  char key[32];
  size_t* counts;
  array in, out;
} exchange;

static size_t ranks_of(const tutti_store* store) {
  return (size_t)tutti_store_num_workers(store);
}

static size_t rank_of(const tutti_store* store) {
  return (size_t)tutti_store_rank(store);
}

/* Element i of the share that a rank sends another. */
static double value(size_t from, size_t to, size_t i) {
  return (double)((from * 31 + to * 7 + i) % 101);
}

static size_t* make_counts(const tutti_store* store, size_t each) {
  const size_t count = ranks_of(store) * ranks_of(store);
  size_t* counts = malloc(count * sizeof *counts);
  for (size_t i = 0; i < count; ++i) counts[i] = each;
  return counts;
}

/* Shares of up to `most` elements, some of them empty; the same on all ranks. */
static size_t* draw_counts(const tutti_store* store, size_t most, uint64_t* random) {
  size_t* counts = make_counts(store, 0);
  for (size_t i = 0; i < ranks_of(store) * ranks_of(store); ++i)
    if (draw(random) % 3 != 0) counts[i] = (size_t)(draw(random) % (most + 1));
  return counts;
}

/* Takes the counts. */
static exchange make_exchange(tutti_store* store, const char* key, size_t* counts, int dtype,
                              int allocated) {
  const size_t n = ranks_of(store), rank = rank_of(store);
  size_t sent = 0, received = 0, at = 0;
  for (size_t other = 0; other < n; ++other) {
    sent += counts[rank * n + other];
    received += counts[other * n + rank];
  }
  exchange made = {.store = store, .counts = counts};
  snprintf(made.key, sizeof made.key, "%s", key);
  made.in = allocated ? allocate_array(store, sent, dtype) : make_array(sent, dtype);
  made.out = allocated ? allocate_array(store, received, dtype) : make_array(received, dtype);
  for (size_t to = 0; to < n; ++to)
    for (size_t i = 0; i < counts[rank * n + to]; ++i) put(&made.in, at++, value(rank, to, i));
  return made;
}

static int call(const exchange* of, int priority, tutti_pending** pending) {
  const size_t n = ranks_of(of->store);
  const tutti_call_options options = {.priority = priority};
  return tutti_store_all_to_all(of->store, named(of->key), of->in.tensor, of->out.tensor,
                                of->counts, n * n, &options, pending);
}

static int call_and_wait(const exchange* of) {
  tutti_pending* pending = NULL;
  const int code = call(of, 0, &pending);
  return code == TUTTI_OK ? finish(pending) : code;
}

static size_t wrong_in(const exchange* of) {
  const size_t n = ranks_of(of->store), rank = rank_of(of->store);
  size_t wrong = 0, at = 0;
  for (size_t from = 0; from < n; ++from)
    for (size_t i = 0; i < of->counts[from * n + rank]; ++i)
      wrong += get(&of->out, at++) != value(from, rank, i);
  return wrong;
}

static void drop_exchange(exchange* gone) {
  drop(&gone->in);
  drop(&gone->out);
  free(gone->counts);
}

/* All at once. */
static void check_all(exchange* all, size_t count) {
  tutti_pending** pending = malloc(count * sizeof *pending);  // NOLINT(bugprone-sizeof-expression)
  for (size_t i = 0; i < count; ++i) {
    snprintf(all[i].key, sizeof all[i].key, "%d", (int)i);
    CHECK_OK(call(&all[i], 0, &pending[i]));
  }
  for (size_t i = 0; i < count; ++i) CHECK_OK(finish(pending[i]));
  for (size_t i = 0; i < count; ++i) {
    CHECK(wrong_in(&all[i]) == 0);
    drop_exchange(&all[i]);
  }
  free(pending);  // NOLINT(bugprone-multi-level-implicit-pointer-conversion)
}

static void all_sizes_and_dtypes(void) {
  static const size_t sizes[] = {0, 1, 40, 3000};
  tutti_store* store = make_store();
  uint64_t random = 11;
  exchange all[32];
  size_t count = 0;
  for (int dtype = TUTTI_F16; dtype <= TUTTI_I64; ++dtype)
    for (int i = 0; i < 4; ++i)
      all[count++] = make_exchange(store, "", draw_counts(store, sizes[i], &random), dtype, 0);
  check_all(all, count);
  tutti_store_destroy(store);
}

static void many_chunks(void) {
  tutti_store* store = make_store();
  uint64_t random = 12;
  exchange all[4];
  for (int i = 0; i < 2; ++i) {
    all[2 * i] = make_exchange(store, "", draw_counts(store, 900000, &random), TUTTI_F32, i);
    all[2 * i + 1] = make_exchange(store, "", make_counts(store, 100003), TUTTI_F64, i);
  }
  check_all(all, 4);
  tutti_store_destroy(store);
}

static void parts_and_slices(void) {
  static const char* const parts[] = {"0", "1024"};
  static const char* const slices[] = {"64", "1024"};
  static const size_t sizes[] = {3, 499, 5000};
  for (int i = 0; i < 4; ++i) {
    tutti_store* store =
        make_store_with(SETTINGS("part_bytes", parts[i / 2], "slice_bytes", slices[i % 2]));
    uint64_t random = 13;
    exchange all[3];
    for (int j = 0; j < 3; ++j)
      all[j] = make_exchange(store, "", draw_counts(store, sizes[j], &random), TUTTI_F64, 0);
    check_all(all, 3);
    tutti_store_destroy(store);
  }
}

static void gathers_and_scatters(void) {
  tutti_store* store = make_store();
  const size_t n = ranks_of(store);
  exchange* all = malloc(2 * n * sizeof *all);
  for (size_t root = 0; root < n; ++root) {
    size_t *gather = make_counts(store, 0), *scatter = make_counts(store, 0);
    for (size_t rank = 0; rank < n; ++rank) {
      gather[rank * n + root] = 1000 * rank + 5;
      scatter[root * n + rank] = 300 * (n - rank);
    }
    all[2 * root] = make_exchange(store, "", gather, TUTTI_I32, 0);
    all[2 * root + 1] = make_exchange(store, "", scatter, TUTTI_I32, 0);
  }
  check_all(all, 2 * n);
  free(all);
  tutti_store_destroy(store);
}

static void in_place(void) {
  static const size_t sizes[] = {3, 70001};
  tutti_store* store = make_store();
  for (int i = 0; i < 2; ++i) {
    exchange one = make_exchange(store, "w", make_counts(store, sizes[i]), TUTTI_F32, 0);
    drop(&one.out);
    one.out = part_of(&one.in, 0, one.in.count);
    CHECK_OK(call_and_wait(&one));
    CHECK(wrong_in(&one) == 0);
    drop_exchange(&one);
  }
  tutti_store_destroy(store);
}

static void matrices_differ(void) {
  const int last = job_size() - 1;
  if (last == 0) return;
  tutti_store* store = make_store_with(SETTINGS("log_level", "off"));
  const int differs = tutti_store_rank(store) == last;
  exchange one = make_exchange(store, "w", make_counts(store, differs ? 5 : 4), TUTTI_F32, 0);
  CHECK(call_and_wait(&one) == TUTTI_MISMATCH);
  check_error(TUTTI_MISMATCH, "w", last, last);
  CHECK_SAYS("'w': matrices of counts differ");
  check_alive(store);
  drop_exchange(&one);
  tutti_store_destroy(store);
}

static void check_refused(const exchange* of, const array* in, const array* out, size_t count,
                          const char* words) {
  CHECK(tutti_store_all_to_all(of->store, named("w"), in->tensor, out->tensor, of->counts, count,
                               NULL, NULL) == TUTTI_INVALID_ARGUMENT);
  check_error(TUTTI_INVALID_ARGUMENT, "w", -1, -1);
  CHECK_SAYS("all_to_all of key 'w'");
  CHECK_SAYS(words);
}

static void wrong_sizes(void) {
  tutti_store* store = make_store();
  const size_t n = ranks_of(store);
  exchange right = make_exchange(store, "w", make_counts(store, 2), TUTTI_F32, 0);
  array larger = make_array(2 * n + 1, TUTTI_F32), other = make_array(2 * n, TUTTI_I32);
  char words[64];
  snprintf(words, sizeof words, "rank %d sends %d elements", (int)rank_of(store), (int)(2 * n));
  check_refused(&right, &larger, &right.out, n * n, words);
  snprintf(words, sizeof words, "rank %d receives %d elements", (int)rank_of(store), (int)(2 * n));
  check_refused(&right, &right.in, &larger, n * n, words);
  check_refused(&right, &right.in, &other, n * n, "same dtype");
  check_refused(&right, &right.in, &right.out, n * n - 1, "matrix has");
  right.counts[0] = SIZE_MAX;
  check_refused(&right, &right.in, &right.out, n * n, "rank 0 sends more than 2^62");
  check_alive(store);
  drop(&larger);
  drop(&other);
  drop_exchange(&right);
  tutti_store_destroy(store);
}

static void joined_rank(void) {
  tutti_store* store = make_store_with(SETTINGS("log_level", "off"));
  const int last = job_size() - 1;
  if (tutti_store_rank(store) != last) {
    exchange one = make_exchange(store, "a", make_counts(store, 4), TUTTI_F32, 0);
    char words[64];
    snprintf(words, sizeof words, "no shares come from rank %d", last);
    CHECK(call_and_wait(&one) == TUTTI_ABORTED);
    check_error(TUTTI_ABORTED, "a", -1, -1);
    CHECK_SAYS(words);
    drop_exchange(&one);
  }
  CHECK_OK(tutti_store_join(store, NULL));
  check_alive(store);
  tutti_store_destroy(store);
}

/* Over all ranks. */
static double sum_over_ranks(tutti_store* store, double number) {
  array sum = make_array(1, TUTTI_F64);
  fill(&sum, number);
  CHECK_OK(pushpull(store, named("sum"), sum.tensor));
  const double result = get(&sum, 0);
  drop(&sum);
  return result;
}

static void bytes_of_the_matrix(void) {
  enum { COUNT = 50001 };
  tutti_store* store = make_store();
  const double n = (double)ranks_of(store);
  tutti_counters before, after;
  exchange one = make_exchange(store, "w", make_counts(store, COUNT), TUTTI_F32, 0);
  CHECK_OK(tutti_store_counters(store, &before, sizeof before));
  CHECK_OK(call_and_wait(&one));
  CHECK_OK(tutti_store_counters(store, &after, sizeof after));
  /* Each rank counts those of its node. */
  const double inside = sum_over_ranks(store, tutti_store_local_size(store));
  CHECK(sum_over_ranks(store, (double)(after.bytes_between_nodes - before.bytes_between_nodes)) ==
        (n * n - inside) * COUNT * sizeof(float));
  CHECK(wrong_in(&one) == 0);
  drop_exchange(&one);
  tutti_store_destroy(store);
}

static void beside_others(void) {
  enum { KEYS = 40, TURNS = 20 };
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), ranks = tutti_store_num_workers(store);
  uint64_t shared = 4711, own = 31 + (uint64_t)rank;
  tutti_pending* pending[2 * KEYS];
  size_t order[2 * KEYS], wrong = 0;
  for (int turn = 0; turn < TURNS; ++turn) {
    exchange all[KEYS];
    array sums[KEYS];
    for (size_t key = 0; key < KEYS; ++key) {
      char name[16];
      snprintf(name, sizeof name, "a%d", (int)key);
      /* Some matrices change in every turn. */
      uint64_t same = 100 + key;
      uint64_t* const random = key % 5 == 0 ? &shared : &same;
      all[key] = make_exchange(store, name, draw_counts(store, key % 8 == 0 ? 20000 : 200, random),
                               TUTTI_F32, 0);
      sums[key] = make_array(10 + key * 30, TUTTI_F32);
      fill(&sums[key], rank + 1);
    }
    shuffle(&own, order, 2 * KEYS);
    for (size_t i = 0; i < 2 * KEYS; ++i) {
      const size_t key = order[i] % KEYS;
      const int priority = (int)(draw(&own) % 10);
      if (order[i] < KEYS) {
        CHECK_OK(call(&all[key], priority, &pending[i]));
        continue;
      }
      char name[16];
      snprintf(name, sizeof name, "s%d", (int)key);
      const how other = {.method = key % 4 == 0 ? BROADCAST : PUSHPULL, .priority = priority};
      CHECK_OK(submit(store, other, named(name), sums[key].tensor, sums[key].tensor, &pending[i]));
    }
    for (size_t i = 0; i < 2 * KEYS; ++i) CHECK_OK(finish(pending[i]));
    for (size_t key = 0; key < KEYS; ++key) {
      wrong += wrong_in(&all[key]);
      wrong += unlike(&sums[key], key % 4 == 0 ? 1 : ranks * (ranks + 1) / 2);
      drop_exchange(&all[key]);
    }
    drop_all(sums, KEYS);
  }
  CHECK(wrong == 0);
  tutti_store_destroy(store);
}

static void any_dtype(void) {
  static const int dtypes[] = {TUTTI_B8, TUTTI_B16, TUTTI_B32, TUTTI_B64, TUTTI_B128};
  enum { EACH = 1000 };
  tutti_store* store = make_store();
  const size_t n = ranks_of(store), rank = rank_of(store);
  size_t* counts = make_counts(store, EACH);
  for (int i = 0; i < 5; ++i) {
    const size_t share = EACH * dtype_size(dtypes[i]);
    array mine = make_array(n * EACH, dtypes[i]), told = make_array(n * EACH, dtypes[i]),
          shares = make_array(n * EACH, dtypes[i]), wholes = make_array(n * EACH, dtypes[i]);
    array part = part_of(&mine, 0, EACH);
    for (size_t to = 0; to < n; ++to)
      memset((char*)mine.data + to * share, (int)(10 * rank + to), share);
    memcpy(told.data, mine.data, n * share);
    tutti_pending* pending = NULL;
    CHECK_OK(tutti_store_all_to_all(store, named("shares"), mine.tensor, shares.tensor, counts,
                                    n * n, NULL, &pending));
    CHECK_OK(finish(pending));
    CHECK_OK(run(store, (how){.method = ALLGATHER}, named("wholes"), part.tensor, wholes.tensor));
    CHECK_OK(broadcast(store, named("told"), told.tensor, (int)n - 1));
    for (size_t from = 0; from < n; ++from) {
      const unsigned char* const at = (const unsigned char*)shares.data + from * share;
      const unsigned char* const whole = (const unsigned char*)wholes.data + from * share;
      const unsigned char* const root = (const unsigned char*)told.data + from * share;
      CHECK(at[0] == 10 * from + rank && at[share - 1] == 10 * from + rank);
      CHECK(whole[0] == 10 * from && whole[share - 1] == 10 * from);
      CHECK(root[0] == 10 * (n - 1) + from && root[share - 1] == 10 * (n - 1) + from);
    }
    CHECK(pushpull(store, named("sum"), mine.tensor) == TUTTI_INVALID_ARGUMENT);
    check_error(TUTTI_INVALID_ARGUMENT, "sum", -1, -1);
    CHECK_SAYS("cannot be added");
    drop(&part);
    drop(&mine);
    drop(&told);
    drop(&shares);
    drop(&wholes);
  }
  free(counts);
  check_alive(store);
  tutti_store_destroy(store);
}

static void no_output(void) {
  static const size_t sizes[] = {3, 300000};
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), ranks = tutti_store_num_workers(store);
  for (int i = 0; i < 2; ++i) {
    for (int root = 0; root < ranks; ++root) {
      array values = make_array(sizes[i], TUTTI_F32);
      fill(&values, rank + 1);
      const tutti_tensor* const tensor = values.tensor;
      const tutti_key key = named("w");
      const tutti_values in = {&tensor, 1}, out = {&tensor, rank == root ? 1 : 0};
      tutti_pending* pending = NULL;
      CHECK_OK(tutti_store_pushpull(store, 1, &key, &in, &out, NULL, &pending));
      CHECK_OK(finish(pending));
      CHECK(unlike(&values, rank == root ? ranks * (ranks + 1) / 2 : rank + 1) == 0);
      drop(&values);
    }
  }
  tutti_store_destroy(store);
}

TESTS(share_tests,
      {"every rank gets the share that each rank sends to it, whatever the sizes and the dtype",
       all_sizes_and_dtypes},
      {"shares of many chunks arrive whole, in shared memory or not", many_chunks},
      {"whatever parts and slices an all_to_all is cut in, the shares are the same",
       parts_and_slices},
      {"a matrix with one column gathers, and one with one row scatters", gathers_and_scatters},
      {"the output of an all_to_all may be its input", in_place},
      {"ranks whose matrices of counts differ get an error that names them, all of them",
       matrices_differ},
      {"tensors that do not fit their matrix of counts are refused at the call, with the sizes",
       wrong_sizes},
      {"a rank that has joined fails an all_to_all", joined_rank},
      {"between nodes what an all_to_all sends is what the matrix says, and nothing else",
       bytes_of_the_matrix},
      {"all_to_alls and other calls in a random order on each rank, with priorities, all come "
       "out right",
       beside_others},
      {"a rank that passes no output contributes to a pushpull and gets nothing", no_output},
      {"elements that cannot be added are moved as they are, and refused where they would be "
       "added",
       any_dtype});
