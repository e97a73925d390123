#pragma once
#include <span>

#include "kvstore/backend.h"
#include "kvstore/local_counters.h"
#include "kvstore/local_places.h"

namespace tutti {

// Operations of a store on the tensors of one process in the host's memory.

/// Reduces the devices' tensors into `out`, which may be one of them. All have the same shape and
/// dtype.
void merge(std::span<const Tensor> ins, const Tensor& out, ReduceOp op);

/// Carries out a collective call of a store of one rank, whose shard is the whole tensor. Reduces
/// the devices' tensors, or passes the first of them on, to all outputs. Stores nothing. Counts the
/// call.
Pending exchange_alone(const MethodCall& call, LocalPlaces& places, LocalCounters& counters);

}  // namespace tutti
