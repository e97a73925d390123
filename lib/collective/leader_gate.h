#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "mpi/communicator.h"

namespace tutti::collective {

/// Arrival of all nodes at a gate, exchanged by their leaders: in round j each tells the leader 2^j
/// further on that it, and all it has heard of, have arrived. After ceil(log2 n) rounds everybody
/// has heard of everybody.
///
/// A gate may carry a block of data from every node to every node, in the same messages: each has
/// the blocks that its sender has so far and its receiver lacks.
///
/// Messages carry epoch and batch. From one peer they come in order, and one that came is kept
/// until it is of no more use: of an older batch or epoch, it is stale; of the same epoch and a
/// later batch, the peer has arrived here, too, for the coordinator has told it that all have (not
/// where the gate carries something: that is passed on in any case); of a newer epoch, the peer has
/// resumed already, and so will this rank.
/// One thread at a time drives it; nothing blocks.
class LeaderGate {
 public:
  /// `leaders`: one rank a node; this one is `leaders[me]`. The communicator is this gate's alone
  /// and outlives it.
  LeaderGate(const mpi::Communicator& communicator, std::vector<int> leaders, std::size_t me);

  /// The largest block for which no message between so many nodes is longer than MPI sends at once.
  static std::size_t most_block(int nodes);
  /// What it holds for blocks and messages.
  std::size_t buffer_bytes() const;

  /// This node has arrived, entirely. `block`: what the gate carries, as long on every node; it is
  /// copied. Once a gate that carries something is known to have closed, it must be driven to its
  /// end, for others may wait for what this rank passes on.
  void arrive(std::uint32_t epoch, std::uint64_t number, std::span<const std::byte> block);
  /// Drives the exchange; true once every node has arrived where this one has.
  bool closed();
  /// Whether the last look brought the open gate on.
  bool moved() const { return moved_; }
  /// Whether MPI still holds messages of gates, closed ones, too.
  bool sending() const { return !sending_.empty(); }
  /// Forgets the gate that `arrive` was called for.
  void withdraw() { waiting_ = false; }
  /// Of the closed gate, until the next arrival: a node's block, which the caller may overwrite.
  std::byte* block(std::size_t node);
  /// Of blocks, sent by this rank.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::string describe() const;

 private:
  struct Header {
    std::uint64_t epoch = 0;
    std::uint64_t batch_plus_one = 0;
  };
  struct Round {
    int to = 0;
    int from = 0;
    std::size_t blocks = 0;  ///< that a message of it has
    std::size_t have = 0;    ///< blocks that are here before it
    std::vector<std::byte> incoming;
    mpi::Requests::Id receive = 0;
    bool posted = false;
  };
  struct Sending {
    std::vector<std::byte> message;
    mpi::Requests::Id id = 0;
  };

  void post(Round& round);
  void tell();
  void collect_sent();
  bool heard(Round& round);
  Header header_of(const Round& round) const;
  std::byte* place(std::size_t distance) { return blocks_.data() + distance * block_bytes_; }

  const std::size_t me_;
  const std::size_t nodes_;
  std::deque<Round> rounds_;  ///< a deque: buffers must not move
  std::vector<Sending> sending_;
  std::vector<std::vector<std::byte>> spare_;
  std::vector<std::byte> blocks_;  ///< by how far their nodes come before this one
  std::size_t block_bytes_ = 0;    ///< of this gate's blocks
  Header gate_;
  bool waiting_ = false;
  std::size_t round_ = 0;
  bool moved_ = false;
  std::uint64_t bytes_sent_ = 0;
  mpi::Requests requests_;  ///< the last: it lets go of the buffers before they go
};

}  // namespace tutti::collective
