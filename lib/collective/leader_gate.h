#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective/piggyback.h"
#include "mpi/communicator.h"

namespace tutti::collective {

/// The gate between nodes: a dissemination barrier of their leaders. In each round a leader tells
/// others that its node, and all nodes it has heard of, have arrived.
///
/// With a payload (`Piggyback`) each leader sends one message a round, for ceil(log2 n) rounds. A
/// gate without payload stands before data that fills the links, and each round's messages queue
/// behind that data. So each leader then sends seven messages a round, for ceil(log8 n) rounds.
///
/// A message carries epoch and batch, and a peer's messages arrive in order. One of an older batch
/// or epoch is stale and dropped. One of a newer epoch is kept: its sender has resumed, and this
/// rank will. Within an epoch no peer is ahead of this rank: it leaves a gate when it has sent all
/// its messages for it, or when the coordinator closes the gate, which begins a new epoch.
/// One thread at a time drives it; nothing blocks.
class LeaderGate {
 public:
  /// `leaders`: one rank a node; this one is `leaders[me]`. The communicator is this gate's alone
  /// and outlives it.
  LeaderGate(const mpi::Communicator& communicator, std::vector<int> leaders, std::size_t me);
  LeaderGate(const LeaderGate&) = delete;
  LeaderGate& operator=(const LeaderGate&) = delete;

  /// Held for blocks and messages.
  std::size_t buffer_bytes() const;
  /// The most it can hold. At most two messages to a peer are under way: its message for one gate
  /// proves that it has received what was sent to it for the gate before.
  static std::size_t most_buffer_bytes(std::size_t nodes);

  /// All ranks of this node have arrived. `load`: what the gate carries; of the same kind on every
  /// node, and copied. A gate that carries something must be driven to its end even when it is
  /// known to have closed, for other nodes may wait for what this one forwards.
  void arrive(std::uint32_t epoch, std::uint64_t number, const Piggyback::Load& load);
  /// Drives the exchange. True once every node has arrived at this gate.
  bool poll_closed();
  /// Whether the last `poll_closed` made progress.
  bool has_moved() const { return moved_; }
  /// Whether MPI still holds messages of gates, closed ones, too.
  bool is_sending() const { return !sending_.empty(); }
  /// Forgets the gate that `arrive` was called for.
  void withdraw() { waiting_ = false; }
  /// The data that the closed gate has brought. It is valid until the next arrival.
  Piggyback& piggyback() { return piggyback_; }
  /// The bytes of blocks that this rank has sent.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::string describe() const;

 private:
  struct Header {
    std::uint64_t epoch = 0;
    std::uint64_t batch_plus_one = 0;
  };
  static_assert(sizeof(Header) <= Piggyback::header_bytes);

  /// One message each way in a round: to one node, from another. Each stream has its own tag.
  struct Stream {
    std::size_t to = 0;
    std::size_t from = 0;
    const Piggyback::Round* carries = nullptr;  ///< null: nothing
    std::vector<std::byte> message;             ///< received
    mpi::Requests::Id id = 0;
    bool posted = false;
  };
  struct Sending {
    std::vector<std::byte> message;
    bool carries = false;
    mpi::Requests::Id id = 0;
  };
  /// MPI may need their messages longer than the gate lives.
  struct Messages {
    std::vector<Stream> streams;  ///< the index is the tag
    std::vector<Sending> sending;
  };
  /// The streams of each round end where its element of `ends` says. Those of the first round begin
  /// at `begin`.
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
  const std::shared_ptr<Messages> messages_ = std::make_shared<Messages>();
  std::vector<Stream>& streams_ = messages_->streams;
  std::vector<Sending>& sending_ = messages_->sending;
  Rounds carrying_, bare_;
  std::vector<std::vector<std::byte>> spare_, spare_bare_;
  Header gate_;
  bool waiting_ = false;
  const Rounds* rounds_ = &bare_;  ///< of the gate that is open
  std::size_t round_ = 0;
  std::size_t next_ = 0;  ///< its first stream on which the peer's arrival is missing
  bool moved_ = false;
  std::uint64_t bytes_sent_ = 0;
  mpi::Requests requests_;
};

}  // namespace tutti::collective
