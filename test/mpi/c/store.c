/* Calls and what they give. test/unit/bindings tests that each function passes on what it gets. */
#include "fixture.h"

static void sums_of_every_size(void) {
  static const size_t counts[] = {0, 1, 1000, 100003};
  tutti_store* store = make_store();
  const int ranks = tutti_store_num_workers(store);
  for (size_t n = 0; n < sizeof counts / sizeof counts[0]; ++n) {
    array mine = make_array(counts[n]), sum = make_array(counts[n]);
    fill(&mine, (float)(tutti_store_rank(store) + 1));
    tutti_pending* pending = NULL;
    CHECK_OK(submit(store, TUTTI_SUM, named("sum"), mine.tensor, sum.tensor, &pending));
    CHECK_OK(finish(pending));
    CHECK(unlike(&sum, (float)(ranks * (ranks + 1) / 2)) == 0);
    CHECK(unlike(&mine, (float)(tutti_store_rank(store) + 1)) == 0);
    drop(&mine);
    drop(&sum);
  }
  tutti_store_destroy(store);
}

static void allocated_tensors(void) {
  tutti_store* store = make_store();
  const int root = tutti_store_num_workers(store) - 1;
  array value = allocate_array(store, 100003);
  fill(&value, (float)tutti_store_rank(store));
  const tutti_key key = named("copy");
  const tutti_tensor* const tensor = value.tensor;
  const tutti_values values = {&tensor, 1};
  tutti_pending* pending = NULL;
  CHECK_OK(tutti_store_broadcast(store, 1, &key, &values, root, NULL, &pending));
  CHECK_OK(finish(pending));
  CHECK(unlike(&value, (float)root) == 0);
  drop(&value);
  tutti_store_destroy(store);
}

static void lists_of_keys_and_devices(void) {
  tutti_store* store = make_store();
  const int ranks = tutti_store_num_workers(store);
  array arrays[4];
  const tutti_tensor* tensors[4];
  for (int i = 0; i < 4; ++i) {
    arrays[i] = make_array(1000);
    fill(&arrays[i], (float)(10 * (i / 2) + i % 2));
    tensors[i] = arrays[i].tensor;
  }
  const tutti_values lists[2] = {{tensors, 2}, {tensors + 2, 2}};
  const tutti_key keys[2] = {{NULL, 3}, {NULL, -4}};
  CHECK_OK(tutti_store_allreduce(store, 2, keys, lists, lists, NULL));
  for (int i = 0; i < 4; ++i) {
    CHECK(unlike(&arrays[i], (float)(ranks * (20 * (i / 2) + 1))) == 0);
    drop(&arrays[i]);
  }
  tutti_store_destroy(store);
}

TESTS(store_tests, {"pushpull gives every rank the sum over all ranks", sums_of_every_size},
      {"a tensor from allocate is exchanged like any other", allocated_tensors},
      {"several devices and several keys go in one call", lists_of_keys_and_devices});
