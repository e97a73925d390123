/* What a store holds, beside the formula, and that it does not grow: the sentences of
 * test/mpi/memory_test.cc. */
#include <stdio.h>
#include <unistd.h>

#include "fixture.h"

#ifndef FREED_MEMORY_IS_KEPT
#define FREED_MEMORY_IS_KEPT 0
#endif

static tutti_counters counters_of(const tutti_store* store) {
  tutti_counters counters;
  CHECK_OK(tutti_store_counters(store, &counters, sizeof counters));
  return counters;
}

/* Of this process, shared memory that it has touched included. Bytes. */
static uint64_t resident(void) {
  unsigned long all = 0, pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  CHECK(fscanf(file, "%lu %lu", &all, &pages) == 2);
  fclose(file);
  return (uint64_t)pages * 4096;
}

/* What the formula is for: between nodes, and where ranks have a processor each, it may be less. */
static int holds_most(const tutti_store* store) {
  const long ranks = tutti_store_num_workers(store);
  return tutti_store_nodes(store) == 1 && (ranks == 1 || ranks > sysconf(_SC_NPROCESSORS_ONLN));
}

static void holds_what_the_formula_says(void) {
  static const char* const slices[] = {"0", "4096", "1M"};
  for (size_t i = 0; i < sizeof slices / sizeof slices[0]; ++i) {
    tutti_options* options = NULL;
    tutti_store* store = NULL;
    CHECK_OK(tutti_options_from_env(&options));
    CHECK_OK(tutti_options_set(options, "slice_bytes", slices[i]));
    CHECK_OK(tutti_store_create("dist_sync_mpi", options, &store));
    const int nodes = tutti_store_nodes(store);
    uint64_t most = 0;
    CHECK_OK(
        tutti_most_buffer_bytes(options, tutti_store_num_workers(store) / nodes, nodes, &most));
    const tutti_counters counters = counters_of(store);
    CHECK(holds_most(store) ? counters.buffer_bytes == most : counters.buffer_bytes <= most);
    CHECK(counters.allocated_bytes == 0);
    tutti_store_destroy(store);
    tutti_options_destroy(options);
  }
}

enum { KEYS = 40, LARGEST = 1 << 20 };

static void step(tutti_store* store, const array* memory, size_t most, uint64_t* random) {
  tutti_key keys[KEYS];
  array parts[KEYS];
  const tutti_tensor* tensors[KEYS];
  tutti_values values[KEYS];
  size_t used = 0, count = 0;
  for (; count < KEYS && used < LARGEST; ++count) {
    size_t end = used + 1 + (size_t)(draw(random) % most);
    if (end > LARGEST) end = LARGEST;
    keys[count] = numbered((int64_t)count);
    parts[count] = part_of(memory, used, end);
    tensors[count] = parts[count].tensor;
    values[count] = (tutti_values){&tensors[count], 1};
    used = end;
  }
  tutti_pending* pending = NULL;
  CHECK_OK(submit_list(store, (how){.method = PUSHPULL}, count, keys, values, values, &pending));
  CHECK_OK(finish(pending));
  drop_all(parts, count);
  memset(memory->data, 0, LARGEST * sizeof(float));
}

static void steps(tutti_store* store, const array* memory, int count, uint64_t* random) {
  for (int i = 0; i < count; ++i)
    step(store, memory, i % 4 == 0 ? LARGEST : (size_t)1 << (i % 20), random);
}

static void does_not_grow(void) {
  tutti_store* store = make_store();
  array memory = make_array(LARGEST, TUTTI_F32);
  uint64_t random = 11;
  /* Every key's and every length's first use costs memory of its own. */
  steps(store, &memory, 100, &random);
  const uint64_t buffers = counters_of(store).buffer_bytes, before = resident();
  steps(store, &memory, 200, &random);
  if (counters_of(store).nodes == 1) CHECK(counters_of(store).buffer_bytes == buffers);
  CHECK(FREED_MEMORY_IS_KEPT || resident() < before + ((uint64_t)4 << 20));
  drop(&memory);
  tutti_store_destroy(store);
}

static void allocated_bytes(void) {
  tutti_store* store = make_store();
  const uint64_t page = 4096;
  array kept = allocate_array(store, 1, TUTTI_U8), large = allocate_array(store, 5000, TUTTI_F32);
  CHECK(counters_of(store).allocated_bytes == 6 * page);
  drop(&large);
  CHECK(counters_of(store).allocated_bytes == page);
  drop(&kept);
  CHECK(counters_of(store).allocated_bytes == 0);
  CHECK(counters_of(store).allocated_peak_bytes == 6 * page);
  CHECK_OK(tutti_store_barrier(store));
  tutti_store_destroy(store);
}

TESTS(memory_tests,
      {"a fresh store holds what the formula says, or less, whatever the slices",
       holds_what_the_formula_says},
      {"200 steps of varying sizes make neither the buffers nor the process grow", does_not_grow},
      {"allocated tensors are counted while they live, and the most of them for ever",
       allocated_bytes});
