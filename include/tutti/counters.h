#pragma once
#include <cstdint>

namespace tutti {

/// What a store has done on this rank since `create`, and what it holds. All values only grow,
/// except `allocated_bytes`.
struct Counters {
  std::uint64_t tensors_reduced = 0;  ///< completed pushes, pushpulls and reduce_scatters, by key
  std::uint64_t bytes_reduced = 0;    ///< of their tensors, once for all devices
  std::uint64_t tensors_broadcast = 0;
  std::uint64_t bytes_broadcast = 0;
  std::uint64_t tensors_gathered = 0;  ///< completed allgathers and all_to_alls
  std::uint64_t bytes_gathered = 0;    ///< of their results, or what the busiest rank moves
  std::uint64_t batches = 0;           ///< batches run; fusion makes them fewer than tensors
  std::uint64_t control_messages = 0;  ///< sent to or received from the coordinator; no heartbeats
  std::uint64_t bytes_between_nodes = 0;  ///< sent by this rank over MPI, or to parameter servers
  std::uint64_t nodes = 1;                ///< nodes of the job, as found at `create`
  /// Buffers of `dist_sync_mpi` on this rank, with its share of the node's shared segments. At most
  /// `most_buffer_bytes`, plus the bytes for keys in flight that its comment names. Freed when the
  /// store ends.
  std::uint64_t buffer_bytes = 0;
  std::uint64_t allocated_bytes = 0;       ///< of tensors from `allocate` now, in whole pages
  std::uint64_t allocated_peak_bytes = 0;  ///< ... and the most that ever was
};

}  // namespace tutti
