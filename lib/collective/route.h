#pragma once
#include <cstddef>
#include <cstdint>

#include "collective/batch.h"
#include "collective/piggyback.h"
#include "collective/tuning.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Everything except the batch itself that decides how a batch moves. It is the same for all
/// batches of a session. Plain data.
struct Site {
  std::size_t nodes = 1;
  int local_size = 1;
  bool in_a_lane = true;        ///< this rank exchanges slices with other nodes
  bool node_tree = true;        ///< the nodes' sums are summed in the canonical tree over nodes
  std::size_t eager_bytes = 0;  ///< the eager limit
  std::size_t cache_bytes = 0;  ///< `Tuning::cache_bytes`
  std::size_t halves_from = SIZE_MAX;  ///< `Tuning::halves_from`

  bool several_nodes() const { return nodes > 1; }

  static Site of(const topology::Topology& topology, const Tuning& tuning);
};

/// The machinery that moves a batch.
enum class Way : std::uint8_t {
  nothing,     ///< the batch has no elements
  small,       ///< `Small`: the data moves with the gate
  halves,      ///< `Halves`: an allreduce of two ranks on one node
  pipeline,    ///< `Allreduce`, the halves of an allreduce included
  group,       ///< `GroupAllreduce`
  broadcast,   ///< `Broadcast`
  all_to_all,  ///< `AllToAll`
};

/// Whether an allreduce, or one of its halves, moves in chunks.
inline bool is_pipelined(Way way) {
  return way == Way::pipeline || way == Way::group;
}

/// Whether the tensors of an allreduce are so large on average that each is summed by itself.
/// Smaller tensors are faster to sum together and to copy out afterwards.
bool is_worth_its_own_sum(const Batch& batch);

/// Whether the outputs exceed a rank's part of the caches, so that they are written by non-temporal
/// stores. For `in_arenas` see `choose_route`.
bool is_streamed(const Batch& batch, const Site& site, bool in_arenas);

/// Returns the way in which the gate between nodes carries a batch, or `none` if it does not carry
/// it. All ranks get the same answer.
Piggyback::Kind carried_by_gate(const Batch& batch, const Site& site);
/// The way of a batch. It depends only on facts that are equal on all ranks. A batch with ends of
/// its own is never small, because its inputs may be written after its gate was entered. If the
/// node has a group once the gate has closed, an allreduce of the pipeline moves by the group
/// instead (`Grouping`).
Way choose_way(const Batch& batch, const Site& site);

/// The way of one batch through the pipeline on this rank: its stages, and the memory that each of
/// them reads and writes. `Allreduce` reads these fields, and decides nothing by itself.
struct Route {
  enum class CopyIn : std::uint8_t {
    none,
    staging,      ///< the part that other ranks sum goes to this rank's staging buffer
    whole_chunk,  ///< the same, and the input to this rank's own slice, too
    column,       ///< an allgather: this rank's column, to the result slot
    result,       ///< the whole chunk, to the result slot: there is nobody to sum it with
  };
  enum class Sum : std::uint8_t {
    none,
    staged,       ///< over the ranks' staging buffers
    in_place,     ///< over the ranks' inputs, which lie in arenas
    passed_over,  ///< copy in has left the lane's slice in the result slot
  };
  enum class SumTo : std::uint8_t {
    result,       ///< the result slot
    own_outputs,  ///< the outputs of this rank
    all_outputs,  ///< the outputs of all ranks of the node, which lie in arenas
  };
  enum class Exchange : std::uint8_t { none, allreduce, reduce_scatter, allgather };
  enum class CopyOut : std::uint8_t {
    none,
    result,    ///< copies out of the result slots
    in_place,  ///< an allgather copies out of the ranks' inputs, which lie in arenas
  };
  using Flag = shm::Flag shm::RankBlock::*;

  CopyIn copy_in = CopyIn::none;
  Sum sum = Sum::none;
  SumTo sum_to = SumTo::result;
  bool own_in_place = true;  ///< this rank's own input is summed from where it lies
  Exchange exchange = Exchange::none;
  bool delivers = false;  ///< after the exchange the lane writes its slice to all outputs
  CopyOut copy_out = CopyOut::none;
  bool own_column_out = false;  ///< a reduce_scatter: copy out takes this rank's column alone

  /// Copy in raises this flag for each chunk.
  Flag brought = &shm::RankBlock::copied_in;
  /// Once all ranks of the node have raised this flag for a chunk, the memory that copy in writes
  /// is free, and no rank reads this rank's inputs any more.
  Flag released = &shm::RankBlock::reduced;
  /// Whether the flag `reduced` is raised only for the last chunk, because no rank waits for single
  /// chunks.
  bool reduced_at_the_end = false;
  /// Whether other ranks read this rank's inputs or write its outputs. Then the batch is done only
  /// when all of them have released it.
  bool waits_for_release = false;
  /// Whether this rank has no stage that raises the flag. Then it raises the flag for all chunks at
  /// once.
  bool leaves_out_copied_in = false;
  bool leaves_out_reduced = false;
  bool leaves_out_copied_out = false;

  bool streaming = false;  ///< the outputs exceed the caches

  friend bool operator==(const Route&, const Route&) = default;
};

/// The route of a batch whose way is the pipeline. `in_arenas` says that all ranks of the node have
/// told where their tensors lie in their arenas (`shm::Descriptor::parts`).
Route choose_route(const Batch& batch, const Site& site, bool in_arenas);

}  // namespace tutti::collective
