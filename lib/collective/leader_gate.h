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
/// others that its node, and all nodes of which it has heard, have arrived.
///
/// With a payload (`Piggyback`) each leader sends one message a round, for ceil(log2 n) rounds. A
/// gate without payload stands before data that fills the links, and each round's messages queue
/// behind that data. So each leader then sends seven messages a round, for ceil(log8 n) rounds.
///
/// A message names its epoch and batch, and a peer's messages arrive in order. A message of an
/// older batch or epoch is outdated, and is dropped. A message of a newer epoch is kept: its sender
/// has resumed, and this rank will. Within an epoch no peer is ahead of this rank. A peer leaves a
/// gate when it has sent all its messages for it, or when the coordinator closes the gate, which
/// begins a new epoch. One thread at a time drives it. Nothing blocks.
class LeaderGate {
 public:
  /// `leaders` holds one rank of each node. This rank is `leaders[me]`. Only this gate uses the
  /// communicator, which outlives it.
  LeaderGate(const mpi::Communicator& communicator, std::vector<int> leaders, std::size_t me);
  LeaderGate(const LeaderGate&) = delete;
  LeaderGate& operator=(const LeaderGate&) = delete;

  /// The bytes that it holds for blocks and messages.
  std::size_t buffer_bytes() const;
  /// The most bytes that it can hold. At most two messages to a peer are under way: the peer's
  /// message for one gate proves that it has received what was sent to it for the gate before.
  static std::size_t most_buffer_bytes(std::size_t nodes);

  /// Call this when all ranks of this node have arrived. `load` is the data that the gate carries.
  /// It is of the same kind on every node, and it is copied. A gate that carries data must be
  /// driven to its end even if it is known to have closed, because other nodes may wait for what
  /// this one forwards.
  void arrive(std::uint32_t epoch, std::uint64_t number, const Piggyback::Load& load);
  /// Drives the exchange. Returns true once every node has arrived at this gate.
  bool poll_closed();
  /// Whether the last `poll_closed` made progress.
  bool has_moved() const { return moved_; }
  /// Whether MPI still holds messages of gates, even of closed ones.
  bool is_sending() const { return !sending_.empty(); }
  /// Forgets the gate for which `arrive` was called.
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

  /// One message in each direction in a round: one to a node, and one from another node. Each
  /// stream has its own tag.
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
  /// Messages that MPI may need for longer than the gate lives.
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
