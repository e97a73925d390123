#pragma once
#include <cstdint>

namespace tutti {

/// Counts what a store has done on this rank since `create`, and the memory that it holds. Values
/// never decrease, except for `allocated_bytes`. Sizes are in bytes.
struct Counters {
  /// Completed pushes, pushpulls and reduce_scatters. A call with several keys counts once for each
  /// key.
  std::uint64_t tensors_reduced = 0;
  /// Bytes of these tensors. A key counts once, however many devices it has.
  std::uint64_t bytes_reduced = 0;
  std::uint64_t tensors_broadcast = 0;
  std::uint64_t bytes_broadcast = 0;
  /// Completed allgathers and all_to_alls.
  std::uint64_t tensors_gathered = 0;
  /// For an allgather, the bytes of its result. For an all_to_all, the bytes that the busiest rank
  /// sends or receives.
  std::uint64_t bytes_gathered = 0;
  /// Batches that the store has run. Fusion makes them fewer than tensors.
  std::uint64_t batches = 0;
  /// Messages sent to and received from the coordinator, without heartbeats.
  std::uint64_t control_messages = 0;
  /// Bytes that this rank has sent over MPI or to parameter servers.
  std::uint64_t bytes_between_nodes = 0;
  /// The number of the job's nodes, as `create` found it.
  std::uint64_t nodes = 1;
  /// Bytes of the buffers of `dist_sync_mpi` on this rank, with its share of the node's shared
  /// segments. They are at most `most_buffer_bytes`, plus the bytes for keys in flight that the
  /// comment of that function names. The store frees the buffers when it ends.
  std::uint64_t buffer_bytes = 0;
  /// Bytes of the tensors from `allocate` that exist now, in whole pages.
  std::uint64_t allocated_bytes = 0;
  /// The most that `allocated_bytes` ever was.
  std::uint64_t allocated_peak_bytes = 0;
};

}  // namespace tutti
