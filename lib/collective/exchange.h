#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective/batch.h"
#include "collective/node_sum.h"
#include "mpi/communicator.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Allreduce of one shard over the ranks of one lane, one on each node, in place.
///
/// The exchange is direct: the shard is divided into one block for each node. Each rank sends every
/// block to its owner. The owner sums it in the canonical tree, and sends the sum to all. Each link
/// carries 2(n-1)/n of the shard. If the shard is small, each rank sends it whole to all, and sums
/// all in the same tree; that takes the time of one message. Either half can be run alone. One
/// thread at a time drives it. Nothing blocks.
class Exchange {
 public:
  /// The most bytes of a shard, and of this rank's block of a shard.
  struct Limits {
    std::size_t shard = 0;
    std::size_t block = 0;
  };

  /// `kin` holds one rank of each node, in the order of nodes. This rank is `kin[me]`. `stream`
  /// separates exchanges that are under way at the same time.
  Exchange(const mpi::Communicator& communicator, std::vector<int> kin, std::size_t me,
           NodeSum sum_of_nodes, Limits limits, int stream);

  /// Starts on a shard, which keeps its address until the exchange is done. With a `wire` format
  /// f32 values are rounded to it before they are sent. They are summed in f32, and the sum is
  /// rounded again, so that all ranks get the same bits.
  void start(const reduce::Kernel& kernel, WireFormat wire, std::byte* shard, std::size_t count);
  /// Starts the first half alone. Afterwards this rank's block holds the sum, and the rest of the
  /// shard is undefined. `blocks` holds the blocks by node, one after the other.
  void reduce_scatter(const reduce::Kernel& kernel, WireFormat wire, std::byte* shard,
                      std::span<const topology::Range> blocks);
  /// Starts the second half alone: this rank sends its block to all, and receives theirs.
  void allgather(DType dtype, std::byte* shard, std::span<const topology::Range> blocks);
  Progress step();
  bool is_busy() const { return phase_ != Phase::idle; }
  /// The bytes that it holds for what arrives and for what travels in a wire format.
  std::size_t buffer_bytes() const {
    return buffers_->inbox.capacity() + buffers_->narrow.capacity();
  }
  /// The bytes that this rank has sent since it was made.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::string describe() const;

 private:
  enum class Phase : std::uint8_t { idle, gather, reduce_scatter, allgather };
  /// Memory that MPI may need for longer than the exchange lives.
  struct Buffers {
    std::vector<std::byte> inbox;   ///< data that arrives, by sender
    std::vector<std::byte> narrow;  ///< the shard in its wire format
  };

  void begin(const reduce::Kernel& kernel, WireFormat wire, std::byte* shard, std::size_t count);
  std::size_t peers() const { return kin_.size(); }
  std::byte* inbox(std::size_t from) { return buffers_->inbox.data() + from * inbox_stride_; }
  void send(std::size_t to, topology::Range range);
  void receive(std::size_t from, std::byte* into, std::size_t elements);
  void narrow(WireFormat wire);
  void finish();
  void start_gather();
  void start_reduce_scatter();
  void start_allgather();
  void sum(topology::Range range);
  bool poll_transfers();

  const std::vector<int> kin_;
  const std::size_t me_;
  NodeSum sum_of_nodes_;
  const int tag_;
  std::size_t inbox_stride_;
  const std::shared_ptr<Buffers> buffers_ = std::make_shared<Buffers>();

  Phase phase_ = Phase::idle;
  reduce::Kernel kernel_{DType::f32, DType::f32};
  std::size_t width_ = 4;
  std::byte* wide_ = nullptr;   ///< the place of the result, if it travels narrowed
  std::byte* shard_ = nullptr;  ///< the elements that travel
  std::size_t count_ = 0;
  std::vector<topology::Range> blocks_;  ///< of the shard, by owner
  bool halfway_ = false;                 ///< the first half alone is wanted
  std::vector<mpi::Requests::Id> open_;
  std::vector<std::byte*> places_;
  std::uint64_t bytes_sent_ = 0;
  mpi::Requests requests_;
};

}  // namespace tutti::collective
