#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective/batch.h"
#include "collective/chunks.h"
#include "collective/exchange.h"
#include "collective/tuning.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Allreduce of one batch, in chunks that are in different stages at once:
///
/// copy in: into this rank's staging memory, what others will sum; sum: this lane's slice of the
/// chunk over all ranks of the node, in one pass in the canonical tree; with several nodes,
/// exchange: the slice with the lane's kin; copy out: the whole chunk from all lanes' results.
///
/// Where all tensors of the node lie in its ranks' arenas nobody copies: each lane reads its slice
/// from all inputs and writes it to all outputs. A slice has one owner, the only one to read or
/// write it, so that outputs may be the inputs.
/// The communication thread owns it; nothing blocks.
class Allreduce {
 public:
  /// The references outlive it. `communicator` is null on one node.
  Allreduce(const topology::Topology& topology, const shm::NodeMemory& memory,
            mpi::Communicator* communicator, const Tuning& tuning);

  /// Starts on a batch with elements that stays until it is done. `sequence` tells its descriptors,
  /// `before` counts the chunks of all batches before.
  void start(const Batch& batch, std::uint64_t sequence, std::uint64_t before);
  Progress step();
  /// Number of the chunk after the batch's last.
  std::uint64_t end() const { return chunks_.end(); }
  /// A transfer between nodes is under way.
  bool polling() const { return several_nodes() && exchanged_ < chunks_.size(); }
  std::uint64_t bytes_sent() const;
  /// Held outside the node's memory.
  std::size_t buffer_bytes() const;
  std::string describe() const;

 private:
  bool several_nodes() const { return topology_.node_count() > 1; }
  bool in_a_lane() const { return topology_.local_index() < lanes_; }
  bool all_in_arenas() const;
  /// This lane's part of a chunk, in elements of the chunk.
  topology::Range slice(std::uint64_t chunk) const;
  Exchange& exchange(std::uint64_t chunk) const;
  std::byte* result(std::uint64_t chunk, std::size_t element) const;
  bool staging_is_free(shm::Flag shm::RankBlock::*last_use, std::uint64_t chunk) const;
  reduce::Kernel kernel(double divisor) const;

  bool copy_in_some();
  bool sum_some();
  void sum_staged(topology::Range part);
  void sum_shared(topology::Range part);
  void finish_slice();
  bool exchange_some();
  void deliver(std::uint64_t chunk);
  void write_everywhere(const Segment& segment, const std::byte* from);
  void raise_reduced();
  bool copy_out_some();

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  const int lanes_;
  const std::size_t cache_bytes_;
  /// One a slot; none on one node, nor on a rank that is in no lane.
  std::vector<std::unique_ptr<Exchange>> exchanges_;

  const Batch* batch_ = nullptr;
  std::uint64_t sequence_ = 0;
  std::size_t width_ = 1;
  bool shared_ = false;     ///< all in arenas
  bool streaming_ = false;  ///< outputs larger than the caches
  Chunks chunks_;
  Cursor in_, sum_, out_;
  std::uint64_t exchanged_ = 0;
  std::vector<const void*> sources_;
  std::vector<std::byte> block_;  ///< a result on its way to several outputs
};

}  // namespace tutti::collective
