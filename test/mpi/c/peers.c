/* send and recv, which concern two ranks: the sentences of test/mpi/peers*_test.cc. */
#include "peers.h"

/* Each rank passes an array on to the next one. */
static void pass_on(tutti_store* store, size_t count, int dtype, int tag) {
  tutti_pending* pending[2] = {NULL, NULL};
  array mine = make_array(count, dtype), theirs = make_array(count, dtype);
  fill_bytes(&mine, tutti_store_rank(store), count);
  CHECK_OK(tutti_store_send(store, mine.tensor, next_to(store), tag, &pending[0]));
  CHECK_OK(tutti_store_recv(store, theirs.tensor, before(store), tag, NULL, &pending[1]));
  CHECK_OK(finish(pending[1]));
  CHECK_OK(finish(pending[0]));
  CHECK(wrong_bytes(&theirs, before(store), count) == 0);
  CHECK(wrong_bytes(&mine, tutti_store_rank(store), count) == 0);
  drop(&mine);
  drop(&theirs);
}

static void pass_in_a_ring(void) {
  static const size_t counts[] = {1, 1000, 70000, 3000000};
  tutti_store* store = make_store();
  if (is_alone(store)) return;
  for (size_t i = 0; i < 4; ++i) pass_on(store, counts[i], TUTTI_U8, 0);
  tutti_store_destroy(store);
}

static void pass_any_dtype(void) {
  static const int dtypes[] = {TUTTI_F16, TUTTI_BF16, TUTTI_F32, TUTTI_F64,
                               TUTTI_I8,  TUTTI_U8,   TUTTI_I32, TUTTI_I64};
  tutti_store* store = make_store();
  if (is_alone(store)) return;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; ++i) pass_on(store, 24, dtypes[i], 4);
  pass_on(store, 0, TUTTI_F32, 0);
  tutti_store_destroy(store);
}

static void keep_the_order_of_a_tag(void) {
  enum { EACH = 20, TAGS = 3, ALL = EACH * TAGS };
  tutti_store* store = make_store();
  if (is_alone(store)) return;
  array out[ALL], in[ALL];
  tutti_pending* pending[2 * ALL];
  for (size_t i = 0; i < ALL; ++i) {
    out[i] = make_array(100, TUTTI_U8);
    fill_bytes(&out[i], tutti_store_rank(store), i);
    CHECK_OK(tutti_store_send(store, out[i].tensor, next_to(store), (int)(i / EACH), &pending[i]));
  }
  for (size_t tag = TAGS; tag-- > 0;) {
    for (size_t i = tag * EACH; i < (tag + 1) * EACH; ++i) {
      in[i] = make_array(100, TUTTI_U8);
      CHECK_OK(
          tutti_store_recv(store, in[i].tensor, before(store), (int)tag, NULL, &pending[ALL + i]));
    }
  }
  for (size_t i = 0; i < 2 * ALL; ++i) CHECK_OK(finish(pending[i]));
  for (size_t i = 0; i < ALL; ++i) CHECK(wrong_bytes(&in[i], before(store), i) == 0);
  drop_all(out, ALL);
  drop_all(in, ALL);
  tutti_store_destroy(store);
}

static void receive_from_any_rank(void) {
  tutti_store* store = make_store();
  if (is_alone(store)) return;
  tutti_pending* pending = NULL;
  array one = make_array(500, TUTTI_U8);
  if (tutti_store_rank(store) > 0) {
    fill_bytes(&one, tutti_store_rank(store), 3);
    CHECK_OK(tutti_store_send(store, one.tensor, 0, 3, &pending));
    CHECK_OK(finish(pending));
  } else {
    int seen = 0;
    for (int i = 1; i < tutti_store_num_workers(store); ++i) {
      int source = -1;
      CHECK_OK(tutti_store_recv(store, one.tensor, TUTTI_ANY_RANK, 3, &source, &pending));
      CHECK_OK(finish(pending));
      CHECK(source > 0 && source < tutti_store_num_workers(store));
      CHECK(wrong_bytes(&one, source, 3) == 0);
      seen |= 1 << source;
    }
    CHECK(seen == (1 << tutti_store_num_workers(store)) - 2);
  }
  drop(&one);
  tutti_store_destroy(store);
}

static void wait_before_a_collective(void) {
  tutti_store* store = make_store();
  if (is_alone(store)) return;
  array a = make_array(500, TUTTI_F32), b = make_array(500, TUTTI_F32);
  array message = make_array(1, TUTTI_F32);
  for (int turn = 0; turn < 40; ++turn) {
    const int deviates = turn % 8 == 7 && tutti_store_rank(store) < 2;
    tutti_pending *first = NULL, *second = NULL;
    const how sum = {.method = PUSHPULL};
    CHECK_OK(submit(store, sum, named("b"), b.tensor, b.tensor, &second));
    if (deviates) {
      if (tutti_store_rank(store) == 0) {
        CHECK_OK(tutti_pending_wait(second));
        fill(&message, turn);
      }
      CHECK_OK(pass_to_one(store, &message, &message, 0));
      CHECK(unlike(&message, turn) == 0);
    }
    CHECK_OK(submit(store, sum, named("a"), a.tensor, a.tensor, &first));
    CHECK_OK(finish(first));
    CHECK_OK(finish(second));
  }
  drop(&a);
  drop(&b);
  drop(&message);
  tutti_store_destroy(store);
}

typedef struct {
  tutti_store* store;
  array mine, theirs;
  tutti_pending* pending[2];
  volatile int called;
} letter;

static void answer(void* context, const tutti_error* error) {
  letter* of = context;
  CHECK(error == NULL);
  CHECK_OK(tutti_store_send(of->store, of->mine.tensor, next_to(of->store), 0, &of->pending[0]));
  CHECK_OK(
      tutti_store_recv(of->store, of->theirs.tensor, before(of->store), 0, NULL, &of->pending[1]));
  of->called = 1;
}

static void call_in_a_callback(void) {
  tutti_store* store = make_store();
  if (is_alone(store)) return;
  letter of = {store, make_array(3000, TUTTI_U8), make_array(3000, TUTTI_U8), {NULL, NULL}, 0};
  fill_bytes(&of.mine, tutti_store_rank(store), 1);
  array sum = make_array(1, TUTTI_F32);
  tutti_pending* pending = NULL;
  CHECK_OK(
      submit(store, (how){.method = PUSHPULL}, named("sum"), sum.tensor, sum.tensor, &pending));
  CHECK_OK(tutti_pending_then(pending, answer, &of));
  CHECK_OK(finish(pending));
  while (!of.called) nap(1);
  CHECK_OK(finish(of.pending[0]));
  CHECK_OK(finish(of.pending[1]));
  CHECK(wrong_bytes(&of.theirs, before(store), 1) == 0);
  drop(&sum);
  drop(&of.mine);
  drop(&of.theirs);
  tutti_store_destroy(store);
}

/* Letters that all ranks draw alike, and sums beside them. */
static void exchange_letters(tutti_store* store, uint64_t* shared, uint64_t* own) {
  enum { LETTERS = 100, KEYS = 12 };
  static const size_t sizes[] = {0, 1, 100, 5000, 5000, 150000};
  const int ranks = tutti_store_num_workers(store), rank = tutti_store_rank(store);
  tutti_pending* pending[LETTERS + KEYS];
  array letters[LETTERS], sums[KEYS];
  int from[LETTERS], to[LETTERS], sources[LETTERS];
  size_t calls = 0, order[LETTERS + KEYS], next_key = 0;
  for (size_t key = 0; key < KEYS; ++key) sums[key] = make_array(300, TUTTI_F32);
  for (size_t i = 0; i < LETTERS; ++i) {
    from[i] = (int)(draw(shared) % (uint64_t)ranks);
    to[i] = (from[i] + 1 + (int)(draw(shared) % (uint64_t)(ranks - 1))) % ranks;
    const int any = draw(shared) % 4 == 0;
    const int tag = any ? 100 + (int)i : (int)(draw(shared) % 3);
    letters[i] = make_array(sizes[draw(shared) % 6], TUTTI_U8);
    if (from[i] == rank) {
      fill_bytes(&letters[i], rank, i);
      CHECK_OK(tutti_store_send(store, letters[i].tensor, to[i], tag, &pending[calls++]));
    } else if (to[i] == rank) {
      CHECK_OK(tutti_store_recv(store, letters[i].tensor, any ? TUTTI_ANY_RANK : from[i], tag,
                                &sources[i], &pending[calls++]));
    }
    while (next_key < KEYS && (i + 1 == LETTERS || draw(own) % 8 == 0)) {
      /* In an order of this rank's own. */
      const size_t key = rank % 2 == 0 ? next_key : KEYS - 1 - next_key;
      fill(&sums[key], 1);
      CHECK_OK(submit(store, (how){.method = PUSHPULL}, numbered((int64_t)key), sums[key].tensor,
                      sums[key].tensor, &pending[calls++]));
      ++next_key;
    }
  }
  shuffle(own, order, calls);
  for (size_t i = 0; i < calls; ++i) CHECK_OK(finish(pending[order[i]]));
  for (size_t i = 0; i < LETTERS; ++i) {
    if (to[i] != rank) continue;
    CHECK(wrong_bytes(&letters[i], from[i], i) == 0);
    CHECK(sources[i] == from[i]);
  }
  for (size_t key = 0; key < KEYS; ++key) CHECK(unlike(&sums[key], ranks) == 0);
  drop_all(letters, LETTERS);
  drop_all(sums, KEYS);
}

static void send_at_random(void) {
  tutti_store* store = make_store();
  if (is_alone(store)) return;
  uint64_t shared = 11, own = 31 + (uint64_t)tutti_store_rank(store);
  for (int turn = 0; turn < 10; ++turn) exchange_letters(store, &shared, &own);
  tutti_store_destroy(store);
}

TESTS(peer_tests, {"each rank passes a tensor on to the next one in a ring", pass_in_a_ring},
      {"elements of any dtype travel unchanged, and so does a tensor without any", pass_any_dtype},
      {"sends with one tag are received in their order, whatever the order of other tags",
       keep_the_order_of_a_tag},
      {"a recv from any rank says whose tensor it took", receive_from_any_rank},
      {"a rank may wait for a recv before it makes the collective call that its peer waits in",
       wait_before_a_collective},
      {"a callback may send and receive", call_in_a_callback},
      {"sends and recvs at random beside collectives in a random order arrive whole",
       send_at_random});
