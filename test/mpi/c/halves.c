/* reduce_scatter and allgather beside pushpull: the sentences of test/mpi/halves_test.cc, the first
 * part. */
#include "halves.h"

#include <math.h>
#include <stdio.h>

/* Values whose sums are rounded in floats, so that their order shows. */
void fill_uneven(const array* to, uint64_t seed) {
  for (size_t i = 0; i < to->count; ++i) {
    const double small = (double)(draw(&seed) % 100 + 1);
    put(to, i, is_integer(to->dtype) ? small : ldexp(small, (int)(draw(&seed) % 9) - 4));
  }
}

int same_bits(const array* a, const array* b) {
  return a->count == b->count && memcmp(a->data, b->data, a->count * dtype_size(a->dtype)) == 0;
}

array own_part(const tutti_store* store, const array* whole) {
  size_t begin = 0, end = 0;
  CHECK_OK(tutti_shard(whole->count, tutti_store_rank(store), tutti_store_num_workers(store),
                       &begin, &end));
  return part_of(whole, begin, end);
}

/* What to compare. */
typedef struct {
  int dtype, op;
  size_t count;
  int allocated, in_place;
} comparison;

/* Its tensors. */
typedef struct {
  array in, sum, whole, part;
} trial;

static trial start_trial(tutti_store* store, const comparison* what) {
  trial made;
  const size_t count = what->count;
#define MAKE() \
  (what->allocated ? allocate_array(store, count, what->dtype) : make_array(count, what->dtype))
  made.in = MAKE();
  made.sum = MAKE();
  made.whole = what->in_place ? part_of(&made.in, 0, count) : MAKE();
#undef MAKE
  made.part = what->in_place ? own_part(store, &made.in) : make_shard(store, count, what->dtype);
  fill_uneven(&made.in, count * 100 + (uint64_t)tutti_store_rank(store));
  return made;
}

static int submit_trial(tutti_store* store, int method, int op, size_t number, const trial* of,
                        tutti_pending** pending) {
  static const char* const words[] = {"whole", "", "first", "second"};
  char key[32];
  snprintf(key, sizeof key, "%s %d", words[method], (int)number);
  const array* from = method == ALLGATHER ? &of->part : &of->in;
  const array* to = method == ALLGATHER ? &of->whole : method == PUSHPULL ? &of->sum : &of->part;
  how call = {.method = PUSHPULL, .op = method == ALLGATHER ? TUTTI_SUM : op};
  call.method = method;
  return submit(store, call, named(key), from->tensor, to->tensor, pending);
}

/* All at once: only a call that needs another's result waits for it. */
static void compare(tutti_store* store, const comparison* all, size_t count) {
  static const int steps[] = {PUSHPULL, REDUCE_SCATTER, ALLGATHER};
  trial* trials = malloc(count * sizeof *trials);
  tutti_pending** pending = malloc(count * sizeof *pending);  // NOLINT(bugprone-sizeof-expression)
  for (size_t i = 0; i < count; ++i) trials[i] = start_trial(store, &all[i]);
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < count; ++i)
      CHECK_OK(submit_trial(store, steps[step], all[i].op, i, &trials[i], &pending[i]));
    for (size_t i = 0; i < count; ++i) CHECK_OK(finish(pending[i]));
    for (size_t i = 0; i < count; ++i) {
      array right = own_part(store, &trials[i].sum);
      if (steps[step] == REDUCE_SCATTER) CHECK(same_bits(&trials[i].part, &right));
      if (steps[step] == ALLGATHER) CHECK(same_bits(&trials[i].whole, &trials[i].sum));
      drop(&right);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    drop(&trials[i].part);
    drop(&trials[i].whole);
    drop(&trials[i].sum);
    drop(&trials[i].in);
  }
  free(trials);
  free(pending);
}

static void every_operation_and_dtype(void) {
  static const size_t counts[] = {0, 5, 10003};
  comparison all[8 * 4 * 3];
  size_t used = 0;
  for (int dtype = TUTTI_F16; dtype <= TUTTI_I64; ++dtype) {
    for (int op = TUTTI_SUM; op <= TUTTI_MAX; ++op) {
      for (int n = 0; n < 3; ++n) all[used++] = (comparison){dtype, op, counts[n], 0, 0};
    }
  }
  tutti_store* store = make_store();
  compare(store, all, used);
  tutti_store_destroy(store);
}

static void large_halves(void) {
  tutti_store* store = make_store();
  for (int i = 0; i < 8; ++i) {
    const size_t count = i < 4 ? 300007 : 3000001;
    const comparison what = {TUTTI_F32, TUTTI_SUM, count, i % 2, i / 2 % 2};
    compare(store, &what, 1);
  }
  tutti_store_destroy(store);
}

static void parts_and_slices(void) {
  static const char* const parts[] = {"0", "1024"};
  static const char* const slices[] = {"64", "1024"};
  for (int i = 0; i < 4; ++i) {
    /* The last count is above what a node exchanges whole; in slices of a cache line it would take
     * long. */
    const size_t counts[] = {3, 499, i % 2 == 0 ? 0 : 70001};
    comparison all[6];
    for (size_t n = 0; n < 3; ++n) {
      all[2 * n] = (comparison){TUTTI_F64, TUTTI_SUM, counts[n], 0, 0};
      all[2 * n + 1] = (comparison){TUTTI_F32, TUTTI_AVERAGE, counts[n], 1, 0};
    }
    tutti_store* store =
        make_store_with(SETTINGS("part_bytes", parts[i / 2], "slice_bytes", slices[i % 2]));
    compare(store, all, 6);
    tutti_store_destroy(store);
  }
}

static void compressed_halves(void) {
  static const char* const kinds[] = {"fp16", "bf16"};
  static const size_t counts[] = {17, 5003, 200003};
  for (int kind = 0; kind < 2; ++kind) {
    comparison all[6];
    for (int n = 0; n < 6; ++n)
      all[n] = (comparison){TUTTI_F32, n < 3 ? TUTTI_SUM : TUTTI_AVERAGE, counts[n % 3], 0, 0};
    tutti_store* store = make_store();
    CHECK_OK(tutti_store_set_gradient_compression(store, kinds[kind], 0));
    compare(store, all, 6);
    tutti_store_destroy(store);
  }
}

static void devices_of_halves(void) {
  enum { COUNT = 30011, DEVICES = 3 };
  tutti_store* store = make_store();
  array all[4][DEVICES];
  const tutti_tensor* tensors[4][DEVICES];
  for (int d = 0; d < DEVICES; ++d) {
    for (int role = 0; role < 4; ++role) {
      all[role][d] = role == 2 ? make_shard(store, COUNT, TUTTI_F32) : make_array(COUNT, TUTTI_F32);
      tensors[role][d] = all[role][d].tensor;
    }
    fill_uneven(&all[0][d], (uint64_t)d * 50 + (uint64_t)tutti_store_rank(store));
  }
  const tutti_values ins = {tensors[0], DEVICES}, sums = {tensors[1], DEVICES},
                     parts = {tensors[2], DEVICES}, wholes = {tensors[3], DEVICES};
  const tutti_key key = named("k");
  tutti_pending* pending = NULL;
  CHECK_OK(submit_list(store, (how){.method = PUSHPULL}, 1, &key, &ins, &sums, &pending));
  CHECK_OK(finish(pending));
  CHECK_OK(submit_list(store, (how){.method = REDUCE_SCATTER}, 1, &key, &ins, &parts, &pending));
  CHECK_OK(finish(pending));
  CHECK_OK(submit_list(store, (how){.method = ALLGATHER}, 1, &key, &parts, &wholes, &pending));
  CHECK_OK(finish(pending));
  array right = own_part(store, &all[1][0]);
  for (int d = 0; d < DEVICES; ++d) {
    CHECK(same_bits(&all[1][d], &all[1][0]));
    CHECK(same_bits(&all[2][d], &right));
    CHECK(same_bits(&all[3][d], &all[1][0]));
  }
  drop(&right);
  drop_all(all[0], (size_t)4 * DEVICES);
  tutti_store_destroy(store);
}

TESTS(half_tests,
      {"the two halves of every operation on every dtype give the bits of the whole",
       every_operation_and_dtype},
      {"large, in place or not, in shared memory or not, the bits are those of the whole",
       large_halves},
      {"whatever parts and slices a tensor is cut in, the bits are those of the whole",
       parts_and_slices},
      {"compressed, the two halves give the bits of the whole", compressed_halves},
      {"several devices are reduced together, and each gets the result", devices_of_halves});
