#pragma once
#include <span>

#include "kvstore/backend.h"
#include "tutti/kvstore.h"

namespace tutti {

// What stores do with the tensors of one process.

/// The tensors are alike, and may be the same.
void copy(const Tensor& from, const Tensor& to);

/// Reduces the devices' tensors, which are alike, into `out`, which may be one of them.
void merge(std::span<const Tensor> ins, const Tensor& out, ReduceOp op);

/// A collective call of a store of one rank, whose shard is the whole: what its devices bring is
/// reduced, or the first of it passed on, to all outputs. Nothing is stored. Counts it.
void exchange_alone(const MethodCall& call, Counters& counters);

}  // namespace tutti
