/* What the tests of the halves of a pushpull share. */
#ifndef TUTTI_TEST_MPI_C_HALVES_H
#define TUTTI_TEST_MPI_C_HALVES_H

#include "fixture.h"

void fill_uneven(const array* to, uint64_t seed);
int same_bits(const array* a, const array* b);
/* This rank's shard of it, in place. */
array own_part(const tutti_store* store, const array* whole);

#endif
