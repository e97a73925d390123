#pragma once
#include "tutti/kvstore.h"

namespace training {

/// How many workers share a node, at most.
int processes_of_node(const tutti::KVStore& store);

/// How many threads a process computes with, on a node where `processes` share that many
/// processors: its share, less one for what else the process has to run, if that leaves any.
/// OpenMP's threads wait for each other by spinning, so that a single one which does not get a
/// processor stops them all.
int compute_threads(int processors, int processes);

/// Sets that number for oneDNN, which would otherwise start a thread for every processor in each
/// process. Left alone when OMP_NUM_THREADS is set.
void share_processors(const tutti::KVStore& store);

}  // namespace training
