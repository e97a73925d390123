#pragma once
#include <span>

#include "kvstore/backend.h"
#include "kvstore/local_counters.h"
#include "kvstore/local_places.h"

namespace tutti {

// Operations of stores on the tensors of one process, which are on the host.

/// Reduces the devices' tensors, which are alike, into `out`, which may be one of them.
void merge(std::span<const Tensor> ins, const Tensor& out, ReduceOp op);

/// A collective call of a store of one rank, whose shard is the whole. Reduces the devices'
/// tensors, or passes the first of them on, to all outputs. Stores nothing. Counts the call.
Pending exchange_alone(const MethodCall& call, LocalPlaces& places, LocalCounters& counters);

}  // namespace tutti
