/* dist_sync_mpi's contract through the C API, in C99: the sentences of the C++ tests
 * (scripts/checks/contract.py compares them), and some of the C interface's own. Run under mpirun
 * with any number of ranks. A word given runs only the tests whose sentences have it. */
#include <stdio.h>

#include "check.h"

extern const test_case store_tests[], together_tests[], error_tests[], more_error_tests[],
    half_tests[], shard_tests[], share_tests[], group_tests[], create_error_tests[],
    deleter_tests[], memory_tests[], peer_tests[], peer_error_tests[], random_tests[], wait_tests[],
    interface_tests[];

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
  static const test_case* const tables[] = {
      store_tests,        together_tests, error_tests,  more_error_tests,
      half_tests,         shard_tests,    share_tests,  group_tests,
      create_error_tests, deleter_tests,  memory_tests, peer_tests,
      peer_error_tests,   random_tests,   wait_tests,   interface_tests};
  int count = 0;
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; ++i)
    count += run_table(tables[i], argc > 1 ? argv[1] : "");
  printf("%d tests, %d checks failed\n", count, failed_checks());
  return count == 0 || failed_checks() > 0;
}
