#pragma once
#include <vector>

#include "benchmarks/allreduce/settings.h"

namespace tutti::bench {

/// The bytes that a link of an ideal ring carries for each byte of the tensor: 2(n-1)/n for an
/// allreduce, (n-1)/n for one of its halves and for an all_to_all, 1 for a broadcast or a sendrecv.
double bus_factor(Operation op, int ranks);

/// The bytes that the ranks of one machine must read and write at least, when each input is read
/// once and each result written once. `bytes`: of the whole tensor. In place only what changes is
/// written.
double bytes_in_memory(const Case& how, double bytes, int ranks);

/// The bytes that the busiest host must send at least. `host_of_rank`: the same number for the
/// ranks of one host. 0: all ranks are on one host.
double bytes_on_link(Operation op, double bytes, const std::vector<int>& host_of_rank);

}  // namespace tutti::bench
