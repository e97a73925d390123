#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collective/piggyback.h"
#include "mpi/communicator.h"

namespace tutti::collective {

/// Arrival of all nodes at a gate, exchanged by their leaders: in each round everybody tells other
/// leaders that its node, and all it has heard of, have arrived, until everybody has heard of
/// everybody.
///
/// A gate may carry data of the nodes in the same messages: then everybody tells one other a round,
/// and ceil(log2 n) rounds are made (`Piggyback`, which also says who sends to whom). One that
/// carries nothing stands before data that fills the links, behind which each round's message
/// waits: there everybody tells seven others a round, and ceil(log8 n) rounds are made.
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
  LeaderGate(const LeaderGate&) = delete;
  LeaderGate& operator=(const LeaderGate&) = delete;

  /// What it holds for blocks and messages.
  std::size_t buffer_bytes() const;
  /// The most that can be. To each peer of a round no more than two messages are under way, for a
  /// peer's message of one gate says that it has what was sent it for the gate before.
  static std::size_t most_buffer_bytes(std::size_t nodes);

  /// This node has arrived, entirely. `load`: what the gate carries, of the same kind on every
  /// node; it is copied. Once a gate that carries something is known to have closed, it must be
  /// driven to its end, for others may wait for what this rank passes on.
  void arrive(std::uint32_t epoch, std::uint64_t number, const Piggyback::Load& load);
  /// Drives the exchange; true once every node has arrived where this one has.
  bool poll_closed();
  /// Whether the last look brought the open gate on.
  bool has_moved() const { return moved_; }
  /// Whether MPI still holds messages of gates, closed ones, too.
  bool is_sending() const { return !sending_.empty(); }
  /// Forgets the gate that `arrive` was called for.
  void withdraw() { waiting_ = false; }
  /// What the closed gate has brought, until the next arrival.
  Piggyback& piggyback() { return piggyback_; }
  /// Of blocks, sent by this rank.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::string describe() const;

 private:
  struct Header {
    std::uint64_t epoch = 0;
    std::uint64_t batch_plus_one = 0;
  };
  static_assert(sizeof(Header) <= Piggyback::header_bytes);

  /// A peer of a round: what goes to one node, and what comes from another, under a tag of their
  /// own.
  struct Stream {
    std::size_t to = 0;
    std::size_t from = 0;
    const Piggyback::Round* carries = nullptr;  ///< null: nothing
    std::vector<std::byte> message;             ///< that comes
    mpi::Requests::Id id = 0;
    bool posted = false;
  };
  struct Sending {
    std::vector<std::byte> message;
    bool carries = false;
    mpi::Requests::Id id = 0;
  };
  /// Of each round, the end of its streams; the first round's begin where `begin` says.
  struct Rounds {
    std::size_t begin = 0;
    std::vector<std::size_t> ends;
  };

  void add(std::size_t to, std::size_t from, const Piggyback::Round* carries);
  void post(Stream& stream);
  void send_round();
  void send(std::size_t tag);
  void collect_sent();
  bool receive_arrival(Stream& stream);
  bool receive_round();

  const std::vector<int> leaders_;
  Piggyback piggyback_;
  std::vector<Stream> streams_;  ///< the index is the tag
  Rounds carrying_, bare_;
  std::vector<Sending> sending_;
  std::vector<std::vector<std::byte>> spare_, spare_bare_;
  Header gate_;
  bool waiting_ = false;
  const Rounds* rounds_ = &bare_;  ///< of the gate that is open
  std::size_t round_ = 0;
  std::size_t next_ = 0;  ///< the first of its streams that has not brought the peer's arrival
  bool moved_ = false;
  std::uint64_t bytes_sent_ = 0;
  mpi::Requests requests_;  ///< the last: it lets go of the buffers before they go
};

}  // namespace tutti::collective
