#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/collective_kind.h"
#include "tutti/key.h"
#include "tutti/reduce_op.h"
#include "tutti/tensor.h"
#include "tutti/wire_format.h"

namespace tutti::coordinator {

/// Numbers a stretch of the plan. Only the coordinator begins a new one. A gate packs it into 24
/// bits, so the coordinator stays below `max_epoch`.
using Epoch = std::uint32_t;
constexpr Epoch max_epoch = (Epoch{1} << 24) - 1;
/// Batches are numbered from 0 in each epoch.
using BatchNumber = std::uint64_t;
/// Names a call of this rank's user. 0 means no call.
using CallId = std::uint64_t;
/// The time since a start that the caller chose. Only differences count.
using Time = std::chrono::nanoseconds;

/// The properties on which all ranks must agree for one use of a key. Rank 0 keeps several for each
/// key, so the members are in the order that takes the least memory.
struct Signature {
  CollectiveKind kind = CollectiveKind::allreduce;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;  ///< only for calls that reduce
  Device::Kind device = Device::Kind::cpu;
  WireFormat wire = WireFormat::none;
  int root = 0;  ///< broadcast only
  /// The shape of the whole tensor, even if a rank has only a shard of it. For an all_to_all: as
  /// many elements as the busiest rank sends or receives.
  Shape shape;
  std::uint64_t counts = 0;  ///< all_to_all only: the hash of its matrix of counts
  friend bool operator==(const Signature&, const Signature&) = default;
};

struct Call {
  Key key = 0;
  Signature signature;
  int priority = 0;
};

/// A barrier is a call without elements under a reserved key. It comes before everything that is
/// not planned yet.
Call barrier_call();
bool is_barrier(const Key& key);

/// The amount of data that travels as one batch.
struct Sizes {
  /// Tensors that have up to this size together travel as one batch. 0: they are never fused.
  std::size_t fusion_bytes = std::size_t{2} << 20;
  /// Larger tensors are cut into parts of about this size. 0: they are never cut.
  std::size_t part_bytes = std::size_t{4} << 20;
};

/// Equal on all ranks and on the coordinator.
struct Settings {
  /// Whether ranks repeat the plan of the last cycle without asking the coordinator.
  bool replay = false;
  Sizes host{};
  Sizes device{std::size_t{8} << 20, std::size_t{32} << 20};  ///< of tensors on a GPU
  /// The number of batches that may be entered and not yet done. Between nodes two large batches
  /// may move at once, with a small one between them. The messages of the next gate then queue
  /// behind the data of these batches.
  std::size_t most_open = 3;
  /// After this time the first report says for which rank a key waits. Further reports follow at
  /// doubling intervals.
  Time stall_report_after = std::chrono::seconds(30);
  /// After this time the wait is given up.
  Time key_timeout = std::chrono::minutes(30);
};

/// A part: a tensor, or a range of its elements, in a batch on one rank.
struct LocalPart {
  CallId call = 0;  ///< 0: this rank has joined and contributes the identity
  std::size_t begin = 0;
  std::size_t count = 0;  ///< elements; 0 for a tensor without elements
  std::size_t whole = 0;  ///< elements of the tensor
  friend bool operator==(const LocalPart&, const LocalPart&) = default;
};

/// A batch on one rank. It is equal on all ranks, except for the calls.
struct LocalBatch {
  Epoch epoch = 0;
  BatchNumber number = 0;
  CollectiveKind kind = CollectiveKind::allreduce;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  Device::Kind device = Device::Kind::cpu;
  WireFormat wire = WireFormat::none;
  int active_ranks = 0;  ///< the ranks that contribute; `average` divides by their number
  std::vector<LocalPart> parts;
  friend bool operator==(const LocalBatch&, const LocalBatch&) = default;
};

}  // namespace tutti::coordinator
