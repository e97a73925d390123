#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "p2p/carrier.h"
#include "p2p/pair_memory.h"

namespace tutti::p2p {

/// Carries frames and elements between the ranks of one node, through memory that they share. A
/// rank that has left data for another one rings the doorbell of that rank.
class NodeCarrier final : public Carrier {
 public:
  /// `ranks` holds those of the node, by local index. `memory` outlives the carrier.
  NodeCarrier(std::vector<int> ranks, PairMemory& memory);

  void open(int rank, Use use) override;
  void post(int to, const Frame& frame, std::span<const std::byte> elements) override;
  void send(int to, std::span<const std::byte> data) override;
  void receive(int from, TransferId call, std::span<std::byte> data) override;
  bool step(News& news) override;
  std::size_t buffer_bytes() const override;

  /// Notes that the rank has left: frames and elements for it are dropped.
  void forget(int rank);
  /// Whether frames wait for room.
  bool has_outbox() const { return waiting_frames_ > 0; }
  /// Whether `step` has something to do.
  bool has_work() const {
    return waiting_frames_ > 0 || transfers_ > 0 || memory_.mail() != seen_mail_;
  }
  /// Whether elements come or go.
  bool is_moving() const { return transfers_ > 0; }

 private:
  struct Incoming {
    TransferId call = 0;
    std::span<std::byte> rest;
  };
  struct Peer {
    std::deque<Frame> outbox;  ///< frames that found no room
    std::deque<std::span<const std::byte>> leaving;
    std::deque<Incoming> coming;
  };

  int local(int rank) const;
  bool flush_frames(int to);
  bool take_frames(int from, News& news);
  Payload take_elements(int from, std::size_t count);
  bool move_out(int to, News& news);
  bool move_in(int from, News& news);

  const std::vector<int> ranks_;
  PairMemory& memory_;
  const int me_;
  std::vector<Peer> peers_;  ///< by local index
  std::uint64_t seen_mail_ = 0;
  std::size_t waiting_frames_ = 0;
  std::size_t transfers_ = 0;
};

}  // namespace tutti::p2p
