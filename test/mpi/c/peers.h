/* The tests of send and recv share these. */
#ifndef TUTTI_TEST_MPI_C_PEERS_H
#define TUTTI_TEST_MPI_C_PEERS_H

#include "fixture.h"

static inline int next_to(const tutti_store* store) {
  return (tutti_store_rank(store) + 1) % tutti_store_num_workers(store);
}

static inline int before(const tutti_store* store) {
  const int ranks = tutti_store_num_workers(store);
  return (tutti_store_rank(store) + ranks - 1) % ranks;
}

static inline int is_alone(tutti_store* store) {
  if (tutti_store_num_workers(store) > 1) return 0;
  tutti_store_destroy(store);
  return 1;
}

/* Bytes that differ by sender, number and place. */
static inline unsigned char byte_of(int rank, size_t number, size_t at) {
  return (unsigned char)((((uint64_t)rank * 7919 + number * 104729 + at) * 0x9e3779b97f4a7c15U) >>
                         40);
}

static inline void fill_bytes(const array* to, int rank, size_t number) {
  for (size_t i = 0; i < to->count * dtype_size(to->dtype); ++i)
    ((unsigned char*)to->data)[i] = byte_of(rank, number, i);
}

static inline size_t wrong_bytes(const array* in, int rank, size_t number) {
  size_t wrong = 0;
  for (size_t i = 0; i < in->count * dtype_size(in->dtype); ++i)
    wrong += ((unsigned char*)in->data)[i] != byte_of(rank, number, i);
  return wrong;
}

/* Rank 0 sends, rank 1 receives; the code of what comes of it there. */
static inline int pass_to_one(tutti_store* store, const array* out, const array* in, int tag) {
  tutti_pending* pending = NULL;
  if (tutti_store_rank(store) == 0) {
    CHECK_OK(tutti_store_send(store, out->tensor, 1, tag, &pending));
  } else {
    CHECK_OK(tutti_store_recv(store, in->tensor, 0, tag, NULL, &pending));
  }
  return finish(pending);
}

#endif
