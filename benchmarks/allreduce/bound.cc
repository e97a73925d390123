#include "benchmarks/allreduce/bound.h"

#include <algorithm>
#include <map>

namespace tutti::bench {
namespace {

/// The most of these bytes that a host sends. `sent(here)`: of a host with so many ranks.
template <typename Sent>
double busiest(const std::map<int, int>& ranks_of_host, const Sent& sent) {
  double most = 0;
  for (const auto& [host, here] : ranks_of_host) most = std::max(most, sent(here));
  return most;
}

/// The most ranks of a host whose next rank is on another host.
int most_leaving(const std::vector<int>& host_of_rank) {
  std::map<int, int> leaving;
  for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const int next = host_of_rank[(rank + 1) % host_of_rank.size()];
    if (next != host_of_rank[rank]) ++leaving[host_of_rank[rank]];
  }
  int most = 0;
  for (const auto& [host, count] : leaving) most = std::max(most, count);
  return most;
}

}  // namespace

double bus_factor(Operation op, int ranks) {
  const double half = static_cast<double>(ranks - 1) / ranks;
  if (op == Operation::allreduce) return 2 * half;
  return has_shares(op) ? half : 1;
}

double bytes_in_memory(const Case& how, double bytes, int ranks) {
  const double n = ranks;
  switch (how.op) {
    case Operation::allreduce:
    case Operation::sendrecv:
      return 2 * n * bytes;
    case Operation::broadcast:
      return n * bytes;  // the root reads, and the others write
    case Operation::reduce_scatter:
      return (n + 1) * bytes;
    case Operation::allgather:
      return (how.in_place ? n : n + 1) * bytes;
    case Operation::all_to_all:
      break;
  }
  return 2 * (how.in_place ? n - 1 : n) * bytes;
}

double bytes_on_link(Operation op, double bytes, const std::vector<int>& host_of_rank) {
  std::map<int, int> ranks_of_host;
  for (const int host : host_of_rank) ++ranks_of_host[host];
  const auto hosts = static_cast<double>(ranks_of_host.size());
  const auto ranks = static_cast<double>(host_of_rank.size());
  if (hosts < 2) return 0;
  switch (op) {
    case Operation::allreduce:
      return 2 * (hosts - 1) / hosts * bytes;
    case Operation::broadcast:
      return bytes;
    case Operation::reduce_scatter:
    case Operation::allgather:
      // A host sends (a part of the sum of) the shards of all ranks elsewhere, or receives them.
      return busiest(ranks_of_host, [&](int here) { return (ranks - here) / ranks * bytes; });
    case Operation::all_to_all:
      return busiest(ranks_of_host,
                     [&](int here) { return here * (ranks - here) / ranks * bytes; });
    case Operation::sendrecv:
      break;
  }
  return most_leaving(host_of_rank) * bytes;
}

}  // namespace tutti::bench
