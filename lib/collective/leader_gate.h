#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collective/freight.h"
#include "mpi/communicator.h"

namespace tutti::collective {

/// Arrival of all nodes at a gate, exchanged by their leaders: in each round everybody tells
/// another leader that its node, and all it has heard of, have arrived. After ceil(log2 n) rounds
/// everybody has heard of everybody.
///
/// A gate may carry data of the nodes in the same messages (`Freight`, which also says who sends to
/// whom).
///
/// Messages carry epoch and batch. From one peer they come in order, and one that came is kept
/// until it is of no more use: of an older batch or epoch, it is stale; of a newer epoch, the peer
/// has resumed already, and so will this rank. In one epoch no peer is ahead: it goes on when it
/// has sent all its messages of a gate, or when the coordinator closes the gate, which begins
/// another epoch.
/// One thread at a time drives it; nothing blocks.
class LeaderGate {
 public:
  /// `leaders`: one rank a node; this one is `leaders[me]`. The communicator is this gate's alone
  /// and outlives it.
  LeaderGate(const mpi::Communicator& communicator, std::vector<int> leaders, std::size_t me);

  /// What it holds for blocks and messages.
  std::size_t buffer_bytes() const;
  /// The most that can be. Of each round no more than two messages are under way, for a peer's
  /// message of one gate says that it has what was sent it for the gate before.
  static std::size_t most_buffer_bytes(std::size_t nodes);

  /// This node has arrived, entirely. `load`: what the gate carries, of the same kind on every
  /// node; it is copied. Once a gate that carries something is known to have closed, it must be
  /// driven to its end, for others may wait for what this rank passes on.
  void arrive(std::uint32_t epoch, std::uint64_t number, const Freight::Load& load);
  /// Drives the exchange; true once every node has arrived where this one has.
  bool closed();
  /// Whether the last look brought the open gate on.
  bool moved() const { return moved_; }
  /// Whether MPI still holds messages of gates, closed ones, too.
  bool sending() const { return !sending_.empty(); }
  /// Forgets the gate that `arrive` was called for.
  void withdraw() { waiting_ = false; }
  /// What the closed gate has brought, until the next arrival.
  Freight& freight() { return freight_; }
  /// Of blocks, sent by this rank.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::string describe() const;

 private:
  struct Header {
    std::uint64_t epoch = 0;
    std::uint64_t batch_plus_one = 0;
  };
  static_assert(sizeof(Header) <= Freight::header_bytes);

  /// What comes from the peer of a round.
  struct Receiving {
    std::vector<std::byte> message;
    mpi::Requests::Id id = 0;
    bool posted = false;
  };
  struct Sending {
    std::vector<std::byte> message;
    mpi::Requests::Id id = 0;
  };

  void post(std::size_t round);
  void tell();
  void collect_sent();
  bool heard(std::size_t round);

  const std::vector<int> leaders_;
  Freight freight_;
  std::vector<Receiving> receiving_;  ///< by round
  std::vector<Sending> sending_;
  std::vector<std::vector<std::byte>> spare_;
  Header gate_;
  bool waiting_ = false;
  std::size_t round_ = 0;
  bool moved_ = false;
  std::uint64_t bytes_sent_ = 0;
  mpi::Requests requests_;  ///< the last: it lets go of the buffers before they go
};

}  // namespace tutti::collective
