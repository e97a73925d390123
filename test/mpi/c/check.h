/* Checks that say what failed and go on, so that no rank keeps the others waiting. */
#ifndef TUTTI_TEST_MPI_C_CHECK_H
#define TUTTI_TEST_MPI_C_CHECK_H

#include <string.h>

#include "tutti/c.h"

/* Says so, with the thread's last error. Thread-safe. */
void check_failed(const char* file, int line, const char* what);
int failed_checks(void);

#define CHECK(holds)                                              \
  do {                                                            \
    if (!(holds)) check_failed(__FILE__, __LINE__, "" #holds ""); \
  } while (0)

#define CHECK_OK(call) CHECK((call) == TUTTI_OK)

/* The last error's message holds this. */
#define CHECK_SAYS(words) CHECK(strstr(tutti_last_error()->message, (words)) != NULL)

typedef struct {
  const char* sentence;
  void (*run)(void);
} test_case;

/* A table of tests, which main.c runs. */
#define TESTS(name, ...) const test_case name[] = {__VA_ARGS__, {NULL, NULL}}

#endif
