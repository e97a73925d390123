/* What the C tests share: checks that say what failed and go on, so that no rank keeps the others
 * waiting. */
#ifndef TUTTI_TEST_MPI_C_CHECK_H
#define TUTTI_TEST_MPI_C_CHECK_H

#include <stdio.h>
#include <string.h>

#include "tutti/c.h"

static int checks_failed = 0;

#define CHECK(holds)                                                                      \
  do {                                                                                    \
    if (!(holds)) {                                                                       \
      ++checks_failed;                                                                    \
      fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #holds, \
              tutti_last_error()->message);                                               \
    }                                                                                     \
  } while (0)

#define CHECK_OK(call) CHECK((call) == TUTTI_OK)

/* The last error's message holds this. */
#define CHECK_SAYS(words) CHECK(strstr(tutti_last_error()->message, (words)) != NULL)

typedef struct {
  const char* sentence;
  void (*run)(void);
} test_case;

static int run_all(const test_case* tests, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const int before = checks_failed;
    tests[i].run();
    if (checks_failed > before) fprintf(stderr, "FAILED: %s\n", tests[i].sentence);
  }
  printf("%d tests, %d checks failed\n", (int)count, checks_failed);
  return checks_failed > 0;
}

#endif
