/* Stores, the memory of tensors and the C interface's own promises, in C99. Run under mpirun with
 * any number of ranks. A word given runs only the tests whose sentences have it.
 * test/unit/bindings tests that each function passes on what it gets. */
#include <stdio.h>

#include "check.h"

extern const test_case store_tests[], deleter_tests[], interface_tests[];

static int run_table(const test_case* tests, const char* wanted) {
  int count = 0;
  for (; tests->sentence != NULL; ++tests) {
    if (strstr(tests->sentence, wanted) == NULL) continue;
    const int before = failed_checks();
    tests->run();
    if (failed_checks() > before) fprintf(stderr, "FAILED: %s\n", tests->sentence);
    ++count;
  }
  return count;
}

int main(int argc, char** argv) {
  static const test_case* const tables[] = {store_tests, deleter_tests, interface_tests};
  int count = 0;
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; ++i)
    count += run_table(tables[i], argc > 1 ? argv[1] : "");
  printf("%d tests, %d checks failed\n", count, failed_checks());
  return count == 0 || failed_checks() > 0;
}
