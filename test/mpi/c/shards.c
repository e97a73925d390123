/* Halves in any order, in lists, between nodes, and wrong ones: the sentences of
 * test/mpi/halves_test.cc, the second part. */
#include <stdio.h>

#include "halves.h"

enum { KEYS = 60, TURNS = 20 };

/* Keys 0, 3, 6, ... are scattered, 1, 4, ... gathered, the others both. */
static int method_of(size_t key) {
  static const int methods[] = {REDUCE_SCATTER, ALLGATHER, PUSHPULL};
  return methods[key % 3];
}

static size_t wrong_results(const tutti_store* store, const array* result, size_t count, size_t key,
                            int turn) {
  const int ranks = tutti_store_num_workers(store);
  size_t begin = 0, end = 0, wrong = 0;
  CHECK_OK(tutti_shard(count, tutti_store_rank(store), ranks, &begin, &end));
  if (method_of(key) != REDUCE_SCATTER) begin = 0;
  const int brought = method_of(key) == ALLGATHER ? 1 : ranks;
  for (size_t i = 0; i < result->count; ++i)
    wrong += floats(result)[i] != sum_of(brought, key, turn, begin + i);
  return wrong;
}

static tutti_pending* submit_any(tutti_store* store, const array* mine, const array* result,
                                 size_t key, int turn, int priority) {
  const int gathers = method_of(key) == ALLGATHER;
  fill_values(mine, gathers ? 0 : tutti_store_rank(store), key, turn);
  fill(result, -1);
  array in = gathers ? own_part(store, mine) : part_of(mine, 0, mine->count);
  how call = {.method = PUSHPULL, .priority = priority};
  call.method = method_of(key);
  tutti_pending* pending = NULL;
  CHECK_OK(submit(store, call, numbered((int64_t)key), in.tensor, result->tensor, &pending));
  drop(&in);
  return pending;
}

static void random_order_of_halves(void) {
  tutti_store* store = make_store();
  uint64_t shared = 815, own = 31 + (uint64_t)tutti_store_rank(store);
  array mine[KEYS], results[KEYS];
  for (size_t key = 0; key < KEYS; ++key) {
    const size_t count = (size_t)(draw(&shared) % (draw(&shared) % 8 == 0 ? 20000 : 300));
    mine[key] = make_array(count, TUTTI_F32);
    results[key] = method_of(key) == REDUCE_SCATTER ? make_shard(store, count, TUTTI_F32)
                                                    : make_array(count, TUTTI_F32);
  }
  size_t order[KEYS], wrong = 0;
  tutti_pending* pending[KEYS];
  for (int turn = 0; turn < TURNS; ++turn) {
    shuffle(&own, order, KEYS);
    for (size_t i = 0; i < KEYS; ++i) {
      const size_t key = order[i];
      pending[i] = submit_any(store, &mine[key], &results[key], key, turn, (int)(draw(&own) % 10));
    }
    for (size_t i = 0; i < KEYS; ++i) CHECK_OK(finish(pending[i]));
    for (size_t key = 0; key < KEYS; ++key)
      wrong += wrong_results(store, &results[key], mine[key].count, key, turn);
  }
  CHECK(wrong == 0);
  tutti_counters counters;
  CHECK_OK(tutti_store_counters(store, &counters, sizeof counters));
  CHECK(counters.tensors_reduced == 800);
  CHECK(counters.tensors_gathered == 400);
  drop_all(mine, KEYS);
  drop_all(results, KEYS);
  tutti_store_destroy(store);
}

static void lists_of_halves(void) {
  static const size_t counts[] = {100, 5};
  tutti_store* store = make_store();
  array all[3][2];
  const tutti_tensor* tensors[3][2];
  tutti_values values[3][2];
  for (int key = 0; key < 2; ++key) {
    for (int role = 0; role < 3; ++role) {
      all[role][key] = role == 1 ? make_shard(store, counts[key], TUTTI_I32)
                                 : make_array(counts[key], TUTTI_I32);
      tensors[role][key] = all[role][key].tensor;
      values[role][key] = (tutti_values){&tensors[role][key], 1};
    }
    for (size_t i = 0; i < counts[key]; ++i) put(&all[0][key], i, (double)i);
  }
  const tutti_key keys[2] = {{"a", 0}, {"b", 0}};
  tutti_pending* pending = NULL;
  CHECK_OK(
      submit_list(store, (how){.method = REDUCE_SCATTER}, 2, keys, values[0], values[1], &pending));
  CHECK_OK(finish(pending));
  CHECK_OK(submit_list(store, (how){.method = ALLGATHER}, 2, keys, values[1], values[2], &pending));
  CHECK_OK(finish(pending));
  const int ranks = tutti_store_num_workers(store);
  for (int key = 0; key < 2; ++key) {
    for (size_t i = 0; i < counts[key]; ++i) CHECK(get(&all[2][key], i) == (double)i * ranks);
  }
  drop_all(all[0], 6);
  tutti_store_destroy(store);
}

/* Over all ranks. */
static double sent_by(tutti_store* store, int method, const array* in, const array* out) {
  tutti_counters before, after;
  how call = {.method = PUSHPULL};
  call.method = method;
  CHECK_OK(tutti_store_counters(store, &before, sizeof before));
  CHECK_OK(run(store, call, named("half"), in->tensor, out->tensor));
  CHECK_OK(tutti_store_counters(store, &after, sizeof after));
  array sent = make_array(1, TUTTI_F64);
  fill(&sent, (double)(after.bytes_between_nodes - before.bytes_between_nodes));
  CHECK_OK(pushpull(store, named("bytes"), sent.tensor));
  const double bytes = get(&sent, 0);
  drop(&sent);
  return bytes;
}

static void bytes_between_nodes(void) {
  enum { COUNT = 1 << 20 };
  tutti_store* store = make_store();
  array in = make_array(COUNT, TUTTI_F32), whole = make_array(COUNT, TUTTI_F32),
        part = make_shard(store, COUNT, TUTTI_F32);
  /* All nodes together: each node's sum of every other node's shards, and each node's own to every
   * other. */
  const double expected = (tutti_store_nodes(store) - 1) * (double)COUNT * sizeof(float);
  CHECK(sent_by(store, REDUCE_SCATTER, &in, &part) == expected);
  CHECK(sent_by(store, ALLGATHER, &part, &whole) == expected);
  drop(&in);
  drop(&whole);
  drop(&part);
  tutti_store_destroy(store);
}

static void no_shards(void) {
  tutti_store* store = make_store();
  const int ranks = tutti_store_num_workers(store);
  const size_t count = (size_t)ranks * 4 + 1;
  size_t begin = 0, end = 0;
  CHECK_OK(tutti_shard(count, tutti_store_rank(store), ranks, &begin, &end));
  char elements[64], size[64];
  snprintf(elements, sizeof elements, "%d to %d", (int)begin, (int)end);
  snprintf(size, sizeof size, "f32 of %d elements", (int)(end - begin));
  array whole = make_array(count, TUTTI_F32), wrong[2];
  wrong[0] = make_array(end - begin + 1, TUTTI_F32);
  wrong[1] = make_array(end - begin, TUTTI_I32);
  for (int i = 0; i < 2; ++i) {
    CHECK(run(store, (how){.method = REDUCE_SCATTER}, named("w"), whole.tensor, wrong[i].tensor) ==
          TUTTI_INVALID_ARGUMENT);
    check_error(TUTTI_INVALID_ARGUMENT, "w", -1, -1);
    CHECK_SAYS("reduce_scatter of key 'w'");
    CHECK_SAYS("the output must be");
    CHECK_SAYS(elements);
    CHECK_SAYS(size);
    CHECK(run(store, (how){.method = ALLGATHER}, named("w"), wrong[i].tensor, whole.tensor) ==
          TUTTI_INVALID_ARGUMENT);
    check_error(TUTTI_INVALID_ARGUMENT, "w", -1, -1);
    CHECK_SAYS("allgather of key 'w'");
    CHECK_SAYS("the input must be");
    CHECK_SAYS(elements);
    CHECK_SAYS(size);
  }
  check_alive(store);
  drop(&whole);
  drop_all(wrong, 2);
  tutti_store_destroy(store);
}

static void halves_differ(void) {
  if (job_size() == 1) return;
  tutti_store* store = make_store_with(SETTINGS("log_level", "off"));
  const int first = tutti_store_rank(store) == 0, last = job_size() - 1;
  const size_t count = first ? 100 : 200;
  array whole = make_array(count, TUTTI_F32), part = make_shard(store, count, TUTTI_F32);
  const how scatter = {.method = REDUCE_SCATTER}, gather = {.method = ALLGATHER};
  CHECK(run(store, scatter, named("s"), whole.tensor, part.tensor) == TUTTI_MISMATCH);
  check_error(TUTTI_MISMATCH, "s", 1, last);
  CHECK_SAYS("(100)");
  CHECK_SAYS("(200)");
  const int code = first ? run(store, gather, named("k"), part.tensor, whole.tensor)
                         : run(store, scatter, named("k"), whole.tensor, part.tensor);
  CHECK(code == TUTTI_MISMATCH);
  check_error(TUTTI_MISMATCH, "k", 1, last);
  CHECK_SAYS("'k': calls differ: rank 0 calls allgather");
  CHECK_SAYS("reduce_scatter");
  check_alive(store);
  drop(&whole);
  drop(&part);
  tutti_store_destroy(store);
}

static void joined_ranks(void) {
  enum { COUNT = 1001 };
  tutti_store* store = make_store_with(SETTINGS("log_level", "off"));
  const int rank = tutti_store_rank(store), last = tutti_store_num_workers(store) - 1;
  array whole = make_array(COUNT, TUTTI_I32), part = make_shard(store, COUNT, TUTTI_I32);
  for (size_t i = 0; i < COUNT; ++i) put(&whole, i, (double)i);
  if (rank != last || last == 0) {
    CHECK_OK(run(store, (how){.method = REDUCE_SCATTER}, named("w"), whole.tensor, part.tensor));
    array mine = own_part(store, &whole);
    size_t wrong = 0;
    for (size_t i = 0; i < part.count; ++i)
      wrong += get(&part, i) != get(&mine, i) * (last == 0 ? 1 : last);
    CHECK(wrong == 0);
    drop(&mine);
  }
  if (rank != last) {
    char words[24];
    snprintf(words, sizeof words, "rank %d", last);
    CHECK(run(store, (how){.method = ALLGATHER}, named("g"), part.tensor, whole.tensor) ==
          TUTTI_ABORTED);
    check_error(TUTTI_ABORTED, "g", -1, -1);
    CHECK_SAYS(words);
    CHECK_SAYS("joined");
  }
  CHECK_OK(tutti_store_join(store, NULL));
  check_alive(store);
  drop(&whole);
  drop(&part);
  tutti_store_destroy(store);
}

TESTS(shard_tests,
      {"halves and wholes in a random order on each rank, with priorities, all come out right",
       random_order_of_halves},
      {"a list of keys goes in one call", lists_of_halves},
      {"between nodes each half sends each link what it must, and both what an allreduce does",
       bytes_between_nodes},
      {"an output or input that is no shard is refused at the call, with the right size",
       no_shards},
      {"halves whose shapes or calls differ between ranks are errors on every rank", halves_differ},
      {"a rank that has joined brings nothing to a reduce_scatter, and fails an allgather",
       joined_ranks});
