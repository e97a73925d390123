#include "training/threads.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>

// From the OpenMP library that oneDNN uses. Its header may be missing where the library is
// installed.
extern "C" void omp_set_num_threads(int);

namespace training {

int processes_of_node(const tutti::KVStore& store) {
  const auto nodes = static_cast<int>(store.counters().nodes);
  return (store.num_workers() + nodes - 1) / nodes;
}

int compute_threads(int processors, int processes) {
  return std::max(1, processors / processes - 1);
}

void share_processors(const tutti::KVStore& store) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  omp_set_num_threads(compute_threads(CPU_COUNT(&usable), processes_of_node(store)));
}

}  // namespace training
