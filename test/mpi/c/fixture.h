/* What the C tests share. Every rank runs the same tests in the same order; each makes stores of
 * its own. */
#ifndef TUTTI_TEST_MPI_C_FIXTURE_H
#define TUTTI_TEST_MPI_C_FIXTURE_H

#include <stdlib.h>

#include "check.h"

/* ---- Stores ---------------------------------------------------------------------------------- */

/* Options as their names and values in turn, beside those of the environment. */
#define SETTINGS(...) ((const char* const[]){__VA_ARGS__, NULL})

int create_with(const char* const* settings, tutti_store** store);
tutti_store* make_store_with(const char* const* settings);
tutti_store* make_store(void);

/* The store still works, on all ranks. */
void check_alive(tutti_store* store);

/* Where this process is in the whole job. */
int job_rank(void);
int job_size(void);

/* ---- Tensors --------------------------------------------------------------------------------- */

/* A tensor of one dimension, and its memory. */
typedef struct {
  tutti_tensor* tensor;
  void* data;
  void* own; /* the memory, where it goes with the tensor */
  size_t count;
  int dtype;
} array;

array make_array(size_t count, int dtype); /* zeros */
array allocate_array(tutti_store* store, size_t count, int dtype);
void drop(array* gone);
void drop_all(array* gone, size_t count);

tutti_tensor* over(void* data, const int64_t* dims, size_t rank, int dtype);
tutti_tensor* on_device(void* data, size_t count, int dtype, tutti_device device);

float* floats(const array* of);
double get(const array* from, size_t i);
void put(const array* to, size_t i, double value);
void fill(const array* to, double value);
/* How many are not this. */
size_t unlike(const array* in, double value);

size_t dtype_size(int dtype);

/* A value that differs by rank, key and turn, so small that sums are exact in f32. */
float value_of(int rank, size_t key, int turn, size_t i);
float sum_of(int ranks, size_t key, int turn, size_t i);
/* Gives the array a rank's values; counts those that are not their sum over so many ranks. */
void fill_values(const array* to, int rank, size_t key, int turn);
size_t wrong_sums(const array* in, int ranks, size_t key, int turn);

/* ---- Calls ----------------------------------------------------------------------------------- */

tutti_key named(const char* text);
tutti_key numbered(int64_t number);

/* One key, or several, with so many devices each. What is 0 is the default. */
typedef struct {
  enum { PUSHPULL, BROADCAST } method;
  int op, priority, root;
} how;

int submit_list(tutti_store* store, how call, size_t count, const tutti_key* keys,
                const tutti_values* ins, const tutti_values* outs, tutti_pending** pending);
int submit(tutti_store* store, how call, tutti_key key, const tutti_tensor* in,
           const tutti_tensor* out, tutti_pending** pending);
/* Waits, and drops the handle. */
int finish(tutti_pending* pending);
/* Both; the code of what went wrong first. */
int run(tutti_store* store, how call, tutti_key key, const tutti_tensor* in,
        const tutti_tensor* out);
/* In place. */
int pushpull(tutti_store* store, tutti_key key, const tutti_tensor* tensor);
int broadcast(tutti_store* store, tutti_key key, const tutti_tensor* tensor, int root);

#endif
