/* Calls of every kind, drawn at random: the sentence of test/mpi/random_test.cc. */
#include <math.h>
#include <stdio.h>

#include "fixture.h"

enum { STORES = 3, KEYS = 64, TURNS = 6, MOST_DEVICES = 3, MOST_RANKS = 64 };

/* What ranks agree on. */
typedef struct {
  int broadcast, dtype, op, root, allocated;
  int joined; /* the rank that has joined and brings nothing, or -1 */
  size_t count;
  int devices[MOST_RANKS]; /* of each rank */
  uint64_t salt;
} plan;

/* One key's arrays on this rank; where they are is this rank's own choice. */
typedef struct {
  const plan* of;
  int devices, in_place;
  array ins[MOST_DEVICES], outs[MOST_DEVICES];
  const tutti_tensor *from[MOST_DEVICES], *to[MOST_DEVICES];
} part;

static size_t random_count(uint64_t* random) {
  switch (draw(random) % 32) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return 100000 + (size_t)(draw(random) % 1000);
    case 3:
    case 4:
      return (size_t)(draw(random) % 40000);
    default:
      return (size_t)(draw(random) % 300);
  }
}

static plan random_plan(uint64_t* random, int ranks) {
  plan made = {.joined = -1};
  made.broadcast = draw(random) % 8 == 0;
  made.dtype = (int)(draw(random) % 8);
  made.op = (int)(draw(random) % 4);
  made.root = (int)(draw(random) % (uint64_t)ranks);
  made.count = random_count(random);
  for (int rank = 0; rank < ranks; ++rank)
    made.devices[rank] = draw(random) % 4 == 0 ? 1 + (int)(draw(random) % MOST_DEVICES) : 1;
  made.allocated = draw(random) % 3 == 0;
  made.salt = draw(random);
  return made;
}

/* Whole numbers so small that every dtype holds the sum over 8 ranks with 3 devices each. */
static double brought(const plan* of, int rank, int device, size_t i) {
  uint64_t seed = of->salt + (uint64_t)(rank * MOST_DEVICES + device) * 7919 + i * 15485863;
  const int number = (int)((draw(&seed) >> 32) % 11);
  return of->dtype == TUTTI_U8 ? number : number - 5;
}

/* What comes out, and how far it may be off. */
static double expected(const plan* of, int ranks, size_t i, double* off) {
  *off = 0;
  if (of->broadcast) return brought(of, of->root, 0, i);
  double sum = 0, size = 0, least = HUGE_VAL, most = -HUGE_VAL;
  int active = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == of->joined) continue;
    ++active;
    for (int device = 0; device < of->devices[rank]; ++device) {
      const double value = brought(of, rank, device, i);
      sum += value;
      size += fabs(value);
      least = fmin(least, value);
      most = fmax(most, value);
    }
  }
  if (of->op == TUTTI_MIN) return least;
  if (of->op == TUTTI_MAX) return most;
  if (of->op == TUTTI_SUM) return sum;
  if (is_integer(of->dtype)) return trunc(sum / active);
  /* Between nodes 16 bits hold what each node has of an average. */
  *off = precision(of->dtype) * size / active;
  return sum / active;
}

static array random_array(tutti_store* store, const plan* of, uint64_t* own) {
  if (of->allocated || draw(own) % 4 == 0) return allocate_array(store, of->count, of->dtype);
  array made = make_array(of->count + 8, of->dtype);
  tutti_tensor_destroy(made.tensor);
  made.data = (char*)made.own + draw(own) % 8; /* unaligned, too */
  made.count = of->count;
  const tutti_device cpu = {TUTTI_CPU, 0};
  made.tensor = on_device(made.data, made.count, made.dtype, cpu);
  return made;
}

static void make_part(part* made, tutti_store* store, const plan* of, uint64_t* own) {
  made->of = of;
  made->devices = of->devices[tutti_store_rank(store)];
  made->in_place = of->broadcast || draw(own) % 2 == 0;
  for (int d = 0; d < made->devices; ++d) {
    made->ins[d] = random_array(store, of, own);
    made->outs[d] = made->in_place ? made->ins[d] : random_array(store, of, own);
    made->from[d] = made->ins[d].tensor;
    made->to[d] = made->outs[d].tensor;
    for (size_t i = 0; i < of->count; ++i)
      put(&made->ins[d], i, brought(of, tutti_store_rank(store), d, i));
  }
}

static void drop_part(part* gone) {
  drop_all(gone->ins, (size_t)gone->devices);
  if (!gone->in_place) drop_all(gone->outs, (size_t)gone->devices);
}

/* Results that are wrong, and inputs that have changed. */
static size_t wrong(const tutti_store* store, const part* in) {
  size_t wrong = 0;
  for (size_t i = 0; i < in->of->count; ++i) {
    double off = 0;
    const double right = expected(in->of, tutti_store_num_workers(store), i, &off);
    for (int d = 0; d < in->devices; ++d) {
      wrong += !(fabs(get(&in->outs[d], i) - right) <= off);
      if (in->in_place) continue;
      wrong += get(&in->ins[d], i) != brought(in->of, tutti_store_rank(store), d, i);
    }
  }
  return wrong;
}

static int alike(const plan* a, const plan* b) {
  return a->broadcast == b->broadcast && a->op == b->op && a->root == b->root;
}

/* The keys in an order and at times of this rank's own, some of them several in a call. */
static void submit_all(tutti_store* store, const part* parts, uint64_t* own) {
  size_t order[KEYS], calls = 0;
  tutti_pending* pending[KEYS];
  shuffle(own, order, KEYS);
  for (size_t at = 0; at < KEYS;) {
    tutti_key keys[KEYS];
    tutti_values ins[KEYS], outs[KEYS];
    const plan* of = parts[order[at]].of;
    size_t count = 0;
    do {
      const part* next = &parts[order[at]];
      keys[count] = numbered((int64_t)order[at]);
      ins[count] = (tutti_values){next->from, (size_t)next->devices};
      outs[count] = (tutti_values){next->to, (size_t)next->devices};
      ++count;
      ++at;
    } while (at < KEYS && draw(own) % 2 == 0 && alike(parts[order[at]].of, of));
    how call = {.method = PUSHPULL, .op = of->op, .priority = (int)(draw(own) % 10)};
    call.root = of->root;
    if (of->broadcast) call.method = BROADCAST;
    CHECK_OK(submit_list(store, call, count, keys, ins, outs, &pending[calls]));
    ++calls;
    if (draw(own) % 32 == 0) nap(1);
  }
  while (calls > 0) CHECK_OK(finish(pending[--calls]));
}

static void take_turn(tutti_store* store, const plan* plans, int turn, uint64_t* own) {
  static part parts[KEYS];
  for (size_t key = 0; key < KEYS; ++key) make_part(&parts[key], store, &plans[key], own);
  submit_all(store, parts, own);
  for (size_t key = 0; key < KEYS; ++key) {
    const size_t off = wrong(store, &parts[key]);
    if (off > 0)
      fprintf(stderr, "turn %d, key %d: dtype %d, op %d, %d elements, broadcast %d\n", turn,
              (int)key, plans[key].dtype, plans[key].op, (int)plans[key].count,
              plans[key].broadcast);
    CHECK(off == 0);
    drop_part(&parts[key]);
  }
}

/* The last turns are the same with other values, so that replay has something to do. In some a rank
 * has joined; roots come. */
static void exchange(tutti_store* store, uint64_t* shared, uint64_t* own) {
  static plan plans[KEYS];
  const int ranks = tutti_store_num_workers(store);
  for (int turn = 0; turn < TURNS; ++turn) {
    const int joins = ranks > 1 && draw(shared) % 3 == 0;
    const int joined = joins ? (int)(draw(shared) % (uint64_t)ranks) : -1;
    for (size_t key = 0; key < KEYS; ++key) {
      if (turn < 3) plans[key] = random_plan(shared, ranks);
      plans[key].salt += (uint64_t)turn;
      plans[key].joined = joined;
      if (plans[key].root == joined) plans[key].root = (joined + 1) % ranks;
    }
    if (joined != tutti_store_rank(store)) take_turn(store, plans, turn, own);
    if (joins) CHECK_OK(tutti_store_join(store, NULL));
  }
}

static void anything(void) {
  static const char* const replays[] = {"0", "1"};
  static const char* const fusions[] = {"0", "1000", "100000", "2M"};
  static const char* const part_sizes[] = {"0", "10000", "300000", "4M"};
  static const char* const slices[] = {"0", "2048", "4096", "50000"};
  uint64_t shared = 2718;
  for (int i = 0; i < STORES; ++i) {
    const char* replay = replays[draw(&shared) % 2];
    const char *fusion = fusions[draw(&shared) % 4], *size = part_sizes[draw(&shared) % 4];
    tutti_store* store =
        make_store_with(SETTINGS("replay", replay, "fusion_bytes", fusion, "part_bytes", size,
                                 "slice_bytes", slices[draw(&shared) % 4]));
    uint64_t own = 31 + (uint64_t)(tutti_store_rank(store) + 100 * i);
    exchange(store, &shared, &own);
    tutti_store_destroy(store);
  }
}

TESTS(random_tests,
      {"any dtype, operation, size, memory, device, order and setting gives the right result",
       anything});
