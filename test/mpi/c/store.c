/* Calls and what they give: the sentences of test/mpi/store_test.cc, the first part. */
#include <stdio.h>

#include "fixture.h"

static void sums_of_every_size(void) {
  static const size_t counts[] = {0, 1, 7, 1000, 100003, 3000001};
  tutti_store* store = make_store();
  const int ranks = tutti_store_num_workers(store), rank = tutti_store_rank(store);
  for (size_t n = 0; n < sizeof counts / sizeof counts[0]; ++n) {
    array mine = make_array(counts[n], TUTTI_F32), sum = make_array(counts[n], TUTTI_F32);
    fill_values(&mine, rank, n, 0);
    CHECK_OK(run(store, (how){.method = PUSHPULL}, named("sum"), mine.tensor, sum.tensor));
    CHECK(wrong_sums(&sum, ranks, n, 0) == 0);
    size_t changed = 0;
    for (size_t i = 0; i < mine.count; ++i) changed += floats(&mine)[i] != value_of(rank, n, 0, i);
    CHECK(changed == 0);
    drop(&mine);
    drop(&sum);
  }
  tutti_store_destroy(store);
}

static void sums_at_once(void) {
  enum { COUNT = 1000, ROUNDS = 50 };
  tutti_store* store = make_store();
  const int ranks = tutti_store_num_workers(store), rank = tutti_store_rank(store);
  array values = make_array(COUNT, TUTTI_F32);
  const tutti_key key = named("sum");
  const tutti_tensor* const tensor = values.tensor;
  const tutti_values all = {&tensor, 1};
  for (int round = 0; round < ROUNDS; ++round) {
    fill_values(&values, rank, 1, round);
    if (rank == 0 && round % 2 == 0) {
      CHECK_OK(pushpull(store, key, tensor));
    } else {
      CHECK_OK(tutti_store_allreduce(store, 1, &key, &all, &all, NULL));
    }
    CHECK(wrong_sums(&values, ranks, 1, round) == 0);
  }
  drop(&values);
  tutti_store_destroy(store);
}

static void where_it_is(void) {
  tutti_store* store = make_store();
  tutti_counters counters;
  CHECK_OK(tutti_store_counters(store, &counters, sizeof counters));
  CHECK(tutti_store_nodes(store) == (int)counters.nodes);
  if (counters.nodes == 1) {
    CHECK(tutti_store_local_rank(store) == tutti_store_rank(store));
    CHECK(tutti_store_local_size(store) == tutti_store_num_workers(store));
  }
  tutti_store_destroy(store);
}

static void unaligned_devices(void) {
  enum { COUNT = 10001, DEVICES = 3 };
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), ranks = tutti_store_num_workers(store);
  char* raw[DEVICES];
  const tutti_tensor* tensors[DEVICES];
  for (int d = 0; d < DEVICES; ++d) {
    raw[d] = malloc(COUNT * sizeof(float) + 1);
    for (size_t i = 0; i < COUNT; ++i) {
      const float value = value_of(rank * DEVICES + d, 1, 0, i);
      memcpy(raw[d] + 1 + i * sizeof value, &value, sizeof value);
    }
    const tutti_device device = {TUTTI_CPU, d};
    tensors[d] = on_device(raw[d] + 1, COUNT, TUTTI_F32, device);
    CHECK(tutti_tensor_device(tensors[d]).index == d);
  }
  const tutti_key key = numbered(5);
  const tutti_values values = {tensors, DEVICES};
  tutti_pending* pending = NULL;
  CHECK_OK(submit_list(store, (how){.method = PUSHPULL}, 1, &key, &values, &values, &pending));
  CHECK_OK(finish(pending));
  size_t wrong = 0;
  for (int d = 0; d < DEVICES; ++d) {
    for (size_t i = 0; i < COUNT; ++i) {
      float value = 0;
      memcpy(&value, raw[d] + 1 + i * sizeof value, sizeof value);
      wrong += value != sum_of(ranks * DEVICES, 1, 0, i);
    }
    tutti_tensor_destroy((tutti_tensor*)tensors[d]);
    free(raw[d]);
  }
  CHECK(wrong == 0);
  tutti_store_destroy(store);
}

static void broadcasts_from_any_root(void) {
  enum { COUNT = 50021 };
  tutti_store* store = make_store();
  array value = make_array(COUNT, TUTTI_F64);
  for (int root = 0; root < tutti_store_num_workers(store); ++root) {
    for (size_t i = 0; i < COUNT; ++i)
      put(&value, i, tutti_store_rank(store) == root ? root * 1000.0 + (double)i : -1);
    CHECK_OK(broadcast(store, named("w"), value.tensor, root));
    size_t wrong = 0;
    for (size_t i = 0; i < COUNT; ++i) wrong += get(&value, i) != root * 1000.0 + (double)i;
    CHECK(wrong == 0);
  }
  drop(&value);
  tutti_store_destroy(store);
}

static double reduced(tutti_store* store, int op, int dtype, double value) {
  array mine = make_array(1, dtype), out = make_array(1, dtype);
  put(&mine, 0, value);
  const how call = {.method = PUSHPULL, .op = op};
  CHECK_OK(run(store, call, named("op"), mine.tensor, out.tensor));
  const double result = get(&out, 0);
  drop(&mine);
  drop(&out);
  return result;
}

static void other_reductions(void) {
  tutti_store* store = make_store();
  const int ranks = tutti_store_num_workers(store), rank = tutti_store_rank(store);
  CHECK(reduced(store, TUTTI_MIN, TUTTI_I32, rank - 2) == -2);
  CHECK(reduced(store, TUTTI_MAX, TUTTI_I32, rank - 2) == ranks - 3);
  const int sum = 10 * ranks + ranks * (ranks - 1) / 2, average = sum / ranks;
  CHECK(reduced(store, TUTTI_AVERAGE, TUTTI_I32, 10 + rank) == average);
  CHECK(reduced(store, TUTTI_AVERAGE, TUTTI_F32, rank) == (ranks - 1) / 2.0);
  tutti_store_destroy(store);
}

static void allocated_tensors(void) {
  enum { COUNT = 3000017 };
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), ranks = tutti_store_num_workers(store);
  array in = allocate_array(store, COUNT, TUTTI_F32), out = allocate_array(store, COUNT, TUTTI_F32);
  for (int turn = 0; turn < 3; ++turn) {
    const array* to = turn == 2 ? &in : &out;
    fill_values(&in, rank, 2, turn);
    CHECK_OK(run(store, (how){.method = PUSHPULL}, named("shared"), in.tensor, to->tensor));
    CHECK(wrong_sums(to, ranks, 2, turn) == 0);
  }
  const int root = ranks - 1;
  fill_values(&out, rank, 3, 0);
  CHECK_OK(broadcast(store, named("copy"), out.tensor, root));
  size_t wrong = 0;
  for (size_t i = 0; i < COUNT; ++i) wrong += floats(&out)[i] != value_of(root, 3, 0, i);
  CHECK(wrong == 0);
  drop(&in);
  drop(&out);
  tutti_store_destroy(store);
}

static void other_shapes(void) {
  tutti_store* store = make_store();
  const int ranks = tutti_store_num_workers(store);
  array few = make_array(8, TUTTI_F32), many = make_array(1000, TUTTI_F32),
        exact = make_array(3, TUTTI_F64);
  CHECK_OK(broadcast(store, named("w"), few.tensor, 0));
  fill(&many, 1);
  fill(&exact, 1);
  CHECK_OK(pushpull(store, named("w"), many.tensor));
  CHECK_OK(pushpull(store, named("w"), exact.tensor));
  CHECK(unlike(&many, ranks) == 0);
  CHECK(unlike(&exact, ranks) == 0);
  drop(&few);
  drop(&many);
  drop(&exact);
  tutti_store_destroy(store);
}

static void broadcasts_of_known_keys(void) {
  tutti_store* store = make_store();
  const int rank = tutti_store_rank(store), root = tutti_store_num_workers(store) - 1;
  array value = make_array(8, TUTTI_F32), other = make_array(3, TUTTI_F64);
  for (int turn = 1; turn <= 2; ++turn) {
    fill(&value, rank + turn);
    CHECK_OK(broadcast(store, named("w"), value.tensor, root));
    CHECK(unlike(&value, root + turn) == 0);
  }
  CHECK_OK(pushpull(store, named("w"), value.tensor));
  fill(&other, rank + 3);
  CHECK_OK(broadcast(store, named("w"), other.tensor, root));
  CHECK(unlike(&other, root + 3) == 0);
  drop(&value);
  drop(&other);
  tutti_store_destroy(store);
}

static void lists_of_keys_and_devices(void) {
  tutti_store* store = make_store();
  const int ranks = tutti_store_num_workers(store);
  array arrays[4];
  const tutti_tensor* tensors[4];
  for (int i = 0; i < 4; ++i) {
    arrays[i] = make_array(1000, TUTTI_I32);
    const int mine = 10 * (i / 2) + i % 2;
    fill(&arrays[i], mine);
    tensors[i] = arrays[i].tensor;
  }
  const tutti_values lists[2] = {{tensors, 2}, {tensors + 2, 2}};
  const tutti_key keys[2] = {{NULL, 3}, {NULL, -4}};
  tutti_pending* pending = NULL;
  CHECK_OK(submit_list(store, (how){.method = PUSHPULL}, 2, keys, lists, lists, &pending));
  CHECK_OK(finish(pending));
  for (int i = 0; i < 4; ++i) {
    const int sum = ranks * (20 * (i / 2) + 1);
    CHECK(unlike(&arrays[i], sum) == 0);
  }
  drop_all(arrays, 4);
  tutti_store_destroy(store);
}

static int part_size(const tutti_store* store, const char* value, const char* origin) {
  tutti_facts* choices = NULL;
  int found = 0;
  CHECK_OK(tutti_store_choices(store, &choices));
  for (size_t i = 0; i < choices->count; ++i) {
    const tutti_fact* choice = &choices->facts[i];
    if (strcmp(choice->name, "part size") != 0) continue;
    found += strcmp(choice->value, value) == 0 && strcmp(choice->origin, origin) == 0;
  }
  tutti_facts_destroy(choices);
  return found == 1;
}

static void sizes_of_parts(void) {
  tutti_store* store = make_store();
  char nodes[64];
  snprintf(nodes, sizeof nodes, "job: %d nodes", tutti_store_nodes(store));
  CHECK(tutti_store_nodes(store) == 1 ? part_size(store, "4M", "job: 1 node")
                                      : part_size(store, "512K", nodes));
  tutti_store_destroy(store);
  store = make_store_with(SETTINGS("part_bytes", "3M"));
  CHECK(part_size(store, "3M", "program"));
  tutti_store_destroy(store);
}

TESTS(store_tests, {"pushpull gives every rank the sum over all ranks", sums_of_every_size},
      {"allreduce gives every rank the sum and returns when it is there", sums_at_once},
      {"a store says where its rank is on its machine", where_it_is},
      {"pushpull in place, unaligned, over several devices", unaligned_devices},
      {"broadcast gives every rank the root's value, from any root", broadcasts_from_any_root},
      {"average, minimum and maximum, integers and floats", other_reductions},
      {"tensors from allocate are exchanged like any other", allocated_tensors},
      {"a key may have another shape and dtype at each exchange", other_shapes},
      {"a broadcast gives a key that is known a new value, of another shape, too",
       broadcasts_of_known_keys},
      {"several devices and several keys go in one call", lists_of_keys_and_devices},
      {"parts are smaller between nodes, unless the program says how large", sizes_of_parts});
