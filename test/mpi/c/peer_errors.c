/* How send and recv fail: the sentences of test/mpi/peers_errors_test.cc. */
#include <stdio.h>

#include "peers.h"

static void disagree(void) {
  tutti_store* store = make_store();
  if (is_alone(store)) return;
  array six = make_array(6, TUTTI_F32), four = make_array(4, TUTTI_F32);
  array wide = make_array(6, TUTTI_F64);
  if (tutti_store_rank(store) < 2) {
    CHECK(pass_to_one(store, &six, &four, 2) == TUTTI_MISMATCH);
    CHECK_SAYS("6 elements of f32");
    CHECK_SAYS("4 elements of f32");
    CHECK(pass_to_one(store, &six, &wide, 2) == TUTTI_MISMATCH);
    CHECK_SAYS("6 elements of f64");
    CHECK_SAYS("tag 2");
    CHECK_OK(pass_to_one(store, &six, &six, 2));
  }
  check_alive(store);
  drop(&six);
  drop(&four);
  drop(&wide);
  tutti_store_destroy(store);
}

/* The call ends in a timeout that names this rank, and says this. */
static void check_late(tutti_pending* pending, int rank, const char* says) {
  char text[64];
  snprintf(text, sizeof text, "rank %d %s", rank, says);
  CHECK(finish(pending) == TUTTI_TIMEOUT);
  CHECK_SAYS(text);
  CHECK(!tutti_last_error()->has_key && tutti_last_error()->rank_count == 1 &&
        tutti_last_error()->ranks[0] == rank);
}

static void wait_in_vain(void) {
  tutti_store* patient = make_store();
  if (is_alone(patient)) return;
  tutti_store* store = make_store_with(SETTINGS("key_timeout", "1"));
  const int last = tutti_store_num_workers(store) - 1;
  array one = make_array(6, TUTTI_F32);
  tutti_pending* pending[2] = {NULL, NULL};
  if (tutti_store_rank(store) == 0) {
    CHECK_OK(tutti_store_send(store, one.tensor, last, 1, &pending[0]));
    CHECK_OK(tutti_store_recv(store, one.tensor, last, 2, NULL, &pending[1]));
    check_late(pending[0], last, "did not make the recv");
    check_late(pending[1], last, "did not make the send");
  }
  CHECK_OK(tutti_store_barrier(patient));
  check_alive(store);
  drop(&one);
  tutti_store_destroy(store);
  tutti_store_destroy(patient);
}

static tutti_pending* send_to(tutti_store* store, const array* from, int rank, int tag) {
  tutti_pending* pending = NULL;
  CHECK_OK(tutti_store_send(store, from->tensor, rank, tag, &pending));
  return pending;
}

static tutti_pending* receive_from(tutti_store* store, const array* into, int rank, int tag) {
  tutti_pending* pending = NULL;
  CHECK_OK(tutti_store_recv(store, into->tensor, rank, tag, NULL, &pending));
  return pending;
}

/* Rank 0 has given up a send with tag 1, a send with tag 2 and a recv with tag 3. */
static void meet_what_was_given_up(tutti_store* store, const array* mine, const array* theirs) {
  check_late(receive_from(store, theirs, 0, 1), 0, "gave up the send");
  check_late(receive_from(store, theirs, TUTTI_ANY_RANK, 2), 0, "gave up the send");
  /* Between nodes a rank hears of a send once it makes a call, which may be too late. */
  check_late(send_to(store, mine, 0, 3), 0, "");
}

static void come_too_late(void) {
  tutti_store* patient = make_store();
  if (is_alone(patient)) return;
  tutti_store* store = make_store_with(SETTINGS("key_timeout", "1"));
  const int last = tutti_store_num_workers(store) - 1, rank = tutti_store_rank(store);
  array mine = make_array(1000, TUTTI_U8), theirs = make_array(1000, TUTTI_U8);
  if (rank == 0) {
    tutti_pending* first = send_to(store, &mine, last, 1);
    tutti_pending* second = send_to(store, &mine, last, 2);
    tutti_pending* third = receive_from(store, &theirs, last, 3);
    check_late(first, last, "did not make");
    check_late(second, last, "did not make");
    check_late(third, last, "did not make");
  }
  CHECK_OK(tutti_store_barrier(patient));
  if (rank == last) meet_what_was_given_up(store, &mine, &theirs);
  CHECK_OK(tutti_store_barrier(patient));
  fill_bytes(&mine, rank, 2);
  for (int tag = 1; tag < 3; ++tag) {
    if (rank == 0) CHECK_OK(finish(send_to(store, &mine, last, tag)));
    if (rank != last) continue;
    CHECK_OK(finish(receive_from(store, &theirs, tag == 1 ? 0 : TUTTI_ANY_RANK, tag)));
    CHECK(wrong_bytes(&theirs, 0, 2) == 0);
  }
  if (rank == 0) CHECK_OK(finish(receive_from(store, &theirs, last, 3)));
  if (rank == 0) CHECK(wrong_bytes(&theirs, last, 2) == 0);
  if (rank == last) CHECK_OK(finish(send_to(store, &mine, 0, 3)));
  CHECK_OK(tutti_store_barrier(patient));
  check_alive(store);
  drop(&mine);
  drop(&theirs);
  tutti_store_destroy(store);
  tutti_store_destroy(patient);
}

static void close_meanwhile(void) {
  tutti_store* store = make_store();
  if (is_alone(store)) return;
  const int last = tutti_store_num_workers(store) - 1;
  array one = make_array(6, TUTTI_F32);
  tutti_pending* pending[2] = {NULL, NULL};
  char says[64];
  snprintf(says, sizeof says, "rank %d has left the store", last);
  if (tutti_store_rank(store) == last) {
    CHECK_OK(tutti_store_send(store, one.tensor, 0, 8, &pending[0]));
    CHECK_OK(tutti_store_close(store));
    CHECK(finish(pending[0]) == TUTTI_ABORTED);
    CHECK_SAYS("has closed this store");
    CHECK(tutti_store_send(store, one.tensor, 0, 8, NULL) == TUTTI_ABORTED);
  } else {
    CHECK_OK(tutti_store_send(store, one.tensor, last, 1, &pending[0]));
    CHECK_OK(tutti_store_recv(store, one.tensor, last, 2, NULL, &pending[1]));
    for (int i = 0; i < 2; ++i) {
      CHECK(finish(pending[i]) == TUTTI_ABORTED);
      CHECK_SAYS(says);
    }
    if (last > 1 && tutti_store_rank(store) < 2) CHECK_OK(pass_to_one(store, &one, &one, 0));
  }
  drop(&one);
  tutti_store_destroy(store);
}

static void call_wrongly(void) {
  tutti_store* store = make_store();
  array one = make_array(6, TUTTI_F32);
  const int ranks = tutti_store_num_workers(store);
  for (int sends = 0; sends < 2; ++sends) {
#define REFUSED(rank, tag)                                                      \
  CHECK((sends ? tutti_store_send(store, one.tensor, rank, tag, NULL)           \
               : tutti_store_recv(store, one.tensor, rank, tag, NULL, NULL)) == \
        TUTTI_INVALID_ARGUMENT)
    REFUSED(ranks, 0);
    CHECK_SAYS("the ranks of this");
    REFUSED(tutti_store_rank(store), 0);
    CHECK_SAYS("this rank itself");
    if (ranks > 1) {
      REFUSED(next_to(store), -3);
      CHECK_SAYS("tag -3");
    }
    if (sends || ranks == 1) REFUSED(TUTTI_ANY_RANK, 0);
#undef REFUSED
  }
  check_alive(store);
  drop(&one);
  tutti_store_destroy(store);
}

TESTS(peer_error_tests,
      {"two ranks that disagree about dtype or size both get a mismatch, and the store lives on",
       disagree},
      {"a send or recv that its peer does not answer ends in a timeout that names it",
       wait_in_vain},
      {"a call whose counterpart was given up ends in a timeout, and the calls after it meet",
       come_too_late},
      {"calls between two ranks that have not met are aborted when one of them closes",
       close_meanwhile},
      {"a rank that there is not, this rank itself and a negative tag are refused at the call",
       call_wrongly});
