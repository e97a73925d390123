#pragma once
#include "tutti/kvstore.h"

namespace training {

/// The largest number of workers that share a node.
int processes_of_node(const tutti::KVStore& store);

/// How many threads a process computes with, if `processes` share the `processors` of a node: its
/// share of them, less one for the process's other threads if that leaves any. OpenMP's threads
/// wait for each other by spinning, so one thread without a processor delays all of them.
int compute_threads(int processors, int processes);

/// Sets that number for oneDNN, which would otherwise start a thread for every processor in each
/// process. Does nothing if OMP_NUM_THREADS is set.
void share_processors(const tutti::KVStore& store);

}  // namespace training
