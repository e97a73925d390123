/* What the C tests share. Every rank runs the same tests in the same order; each makes stores of
 * its own. */
#ifndef TUTTI_TEST_MPI_C_FIXTURE_H
#define TUTTI_TEST_MPI_C_FIXTURE_H

#include <stdlib.h>

#include "check.h"

/* ---- Stores ---------------------------------------------------------------------------------- */

tutti_store* make_store(void);
/* A store that logs nothing. */
tutti_store* make_silent_store(void);

/* The store still works, on all ranks. */
void check_alive(tutti_store* store);

/* Where this process is in the whole job. */
int job_rank(void);
int job_size(void);

/* ---- Tensors --------------------------------------------------------------------------------- */

/* A tensor of floats with one dimension, and its memory. */
typedef struct {
  tutti_tensor* tensor;
  float* data;
  float* own; /* the memory, where it goes with the tensor */
  size_t count;
} array;

array make_array(size_t count); /* zeros */
array allocate_array(tutti_store* store, size_t count);
void drop(array* gone);

/* A tensor of one float. */
tutti_tensor* over(float* value);

void fill(const array* to, float value);
/* How many are not this. */
size_t unlike(const array* in, float value);

/* ---- Calls ----------------------------------------------------------------------------------- */

tutti_key named(const char* text);

/* A pushpull. */
int submit(tutti_store* store, int op, tutti_key key, const tutti_tensor* in,
           const tutti_tensor* out, tutti_pending** pending);
/* Waits, and drops the handle. */
int finish(tutti_pending* pending);
/* Sums in place. */
int pushpull(tutti_store* store, tutti_key key, const tutti_tensor* tensor);

#endif
