#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collective/batch.h"
#include "collective/chunks.h"
#include "collective/copy_stage.h"
#include "collective/ends.h"
#include "collective/mover.h"
#include "collective/tuning.h"
#include "mpi/communicator.h"
#include "observe/timeline.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// All-to-all of one batch, in chunks. In each chunk every pair of ranks moves its share of the
/// chunk (`Shares`). An empty share needs no message and no copy.
///
/// 1. Copy in: this rank copies its shares for the other ranks into its staging buffer, one after
/// the other, by receiver.
/// 2. Between nodes: it sends its shares for ranks of other nodes straight to these ranks, and
/// receives theirs into the second half of its staging buffer.
/// 3. Copy out: it copies its shares out of the staging buffers of the ranks of its node, and out
/// of the second half of its own. On the host it takes its share for itself straight from its
/// input.
///
/// No other batch moves beside it. One thread at a time drives it. Nothing blocks.
class AllToAll final : public Mover {
 public:
  /// The references outlive this object. `communicator` is null on one node. Only this all-to-all
  /// uses the stream `stream` of it.
  AllToAll(const topology::Topology& topology, const shm::NodeMemory& memory,
           mpi::Communicator* communicator, const Tuning& tuning, int stream);

  /// Records the stages in the timeline from now on. The timeline outlives this object.
  void record_in(observe::Timeline& timeline) { recorder_ = observe::StageRecorder(timeline); }

  /// Starts on a batch, which is not empty and keeps its address until it is done. `before` counts
  /// the chunks of all batches before it.
  void start(const Batch& batch, std::uint64_t before);
  Progress step() override;
  /// No batch is before this one, so there is nothing to drive ahead.
  bool drive_device() override { return false; }
  /// The number of the chunk after the batch's last one.
  std::uint64_t end() const { return chunks_.end(); }
  bool is_issued() const override { return out_.begun.chunk == chunks_.size(); }
  bool is_polling() const override { return (requests_ && done_ < chunks_.size()) || is_copying(); }
  bool is_copying() const override { return in_.is_under_way() || out_.is_under_way(); }
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::string describe() const override;

 private:
  /// The transfers of the chunk in a slot.
  struct Transfers {
    std::vector<mpi::Requests::Id> sends;
    std::vector<mpi::Requests::Id> receives;
  };

  auto is_over(Ends::Side side) const {
    return [this, side](CopyStage::Mark mark) { return ends_->is_over(side, mark); };
  }
  bool is_host() const { return ends_ == &host_; }
  bool is_here(int rank) const {
    return topology_.node_of[static_cast<std::size_t>(rank)] == topology_.node();
  }
  Transfers& transfers(std::uint64_t chunk) {
    return transfers_[chunks_.number(chunk) % transfers_.size()];
  }
  std::byte* staging(int local, std::uint64_t chunk) const {
    return memory_.staging_in(local, chunks_.number(chunk));
  }
  /// Finds where the elements for each other rank begin in the input, and those from each other
  /// rank in the output.
  void find_firsts();
  /// The number of elements of the chunk that lie in the staging buffer of `from` before its share
  /// for `to`.
  std::size_t staged_before(int from, int to, std::uint64_t chunk) const;
  bool is_staged(int from, int to) const { return from != to || !is_host(); }

  bool bring_some();
  bool begin_chunk(std::uint64_t chunk);
  void list_pieces_in(std::uint64_t chunk);
  void receive(std::uint64_t chunk);
  bool pass_on_brought();
  void send(std::uint64_t chunk);
  bool copy_out_some();
  bool may_copy_out();
  void list_pieces_out(std::uint64_t chunk);
  bool finish_some();
  bool are_over(std::vector<mpi::Requests::Id>& transfers);
  topology::Range next_copies(std::size_t done, std::size_t end) const;

  const topology::Topology& topology_;
  const shm::NodeMemory& memory_;
  const std::size_t cache_bytes_;
  const int tag_;
  std::optional<mpi::Requests> requests_;  ///< none on one node
  std::vector<Transfers> transfers_;       ///< by slot
  std::uint64_t bytes_sent_ = 0;
  observe::StageRecorder recorder_;

  const Batch* batch_ = nullptr;
  std::size_t width_ = 1;
  bool streaming_ = false;  ///< outputs larger than the caches
  HostEnds host_;
  Ends* ends_ = nullptr;  ///< the batch's
  Chunks chunks_;
  /// By receiver: the place in the input where its share begins.
  std::vector<std::size_t> sent_from_;
  /// By sender: the place in the output where its share begins.
  std::vector<std::size_t> received_at_;
  CopyStage in_;
  CopyStage out_;
  std::uint64_t done_ = 0;  ///< chunks that are copied out here, and sent
  /// The pieces of the chunk that is being copied in, and of the one that is being copied out.
  std::vector<Ends::PieceIn> pieces_in_;
  std::vector<Ends::PieceOut> pieces_out_;
  std::vector<Ends::PieceIn> some_in_;  ///< for one step
  std::vector<Ends::PieceOut> some_out_;
};

}  // namespace tutti::collective
