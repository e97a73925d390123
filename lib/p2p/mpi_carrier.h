#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mpi/communicator.h"
#include "p2p/carrier.h"

namespace tutti::p2p {

/// The communicator and tags of a store's messages between nodes.
struct BetweenNodes {
  /// Null if there is one node. It outlives all stores of these ranks.
  const mpi::Communicator* communicator = nullptr;
  /// The store's number among those of these ranks. It chooses the tags. So messages that are on
  /// their way when a store closes reach no later store.
  int store = 0;
};

/// Carries frames and elements between ranks of different nodes. One message holds the frame of an
/// eager send and its elements. Elements pass through buffers of the carrier, so that MPI never
/// touches a tensor whose call has ended with an error. Nothing rings a bell: a thread that waits
/// for something calls `step`.
class MpiCarrier final : public Carrier {
 public:
  explicit MpiCarrier(const BetweenNodes& where);

  /// Posts a receive for a frame of that rank, from now on.
  void open(int rank, Use use) override;
  void post(int to, const Frame& frame, std::span<const std::byte> elements) override;
  void send(int to, std::span<const std::byte> data) override;
  void receive(int from, TransferId call, std::span<std::byte> data) override;
  bool step(News& news) override;
  std::size_t buffer_bytes() const override;

  /// Whether something is on its way, so that MPI must be called.
  bool is_sending() const { return sending_ > 0; }
  /// Whether elements come or go.
  bool is_moving() const { return moving_ > 0; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  /// Memory that MPI may use for longer than the carrier lives.
  struct Buffers;
  struct Piece {
    mpi::Requests::Id id = 0;
    std::byte* buffer = nullptr;
    std::span<std::byte> into;  ///< of a receive
  };
  struct SentFrame {
    mpi::Requests::Id id = 0;
    Frame* frame = nullptr;            ///< or
    Payload* with_elements = nullptr;  ///< the bytes of a frame, then elements
  };
  struct Incoming {
    TransferId call = 0;
    std::span<std::byte> rest;  ///< not asked for yet
    std::size_t pieces = 0;     ///< asked for, not there
  };
  struct Peer {
    Payload* inbox = nullptr;  ///< the bytes of a frame, then elements; null: not open
    mpi::Requests::Id hearing = 0;
    std::deque<SentFrame> outbox;
    std::deque<std::span<const std::byte>> leaving;
    std::deque<Piece> out;
    std::deque<Incoming> coming;
    std::deque<Piece> in;
  };

  bool take_frames(int from, Peer& peer, News& news);
  bool forget_sent(Peer& peer);
  bool move_out(int to, Peer& peer, News& news);
  bool move_in(int from, Peer& peer, News& news);
  bool note_arrived(Peer& peer, News& news);

  const int frame_tag_;
  const int data_tag_;
  const std::shared_ptr<Buffers> buffers_;
  std::vector<Peer> peers_;  ///< by rank
  std::vector<int> open_;
  std::size_t sending_ = 0;
  std::size_t moving_ = 0;
  std::uint64_t bytes_sent_ = 0;
  mpi::Requests requests_;
};

}  // namespace tutti::p2p
