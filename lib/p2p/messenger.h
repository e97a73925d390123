#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "p2p/endpoint.h"
#include "p2p/looks.h"
#include "p2p/mpi_carrier.h"
#include "p2p/node_carrier.h"
#include "topology/topology.h"

namespace tutti::p2p {

/// Passes tensors between pairs of ranks. It carries out the endpoint's actions by means of the
/// carriers. One thread at a time uses it. Nothing blocks.
class Messenger {
 public:
  /// Says whether a rank closes its store. If so, everything that it ever posted on this node is
  /// there.
  using IsClosing = std::function<bool(int rank)>;

  /// `limit` is how long a call waits for the other rank's call. The references outlive the
  /// messenger.
  Messenger(const topology::Topology& topology, SessionTime limit, PairMemory& memory,
            const BetweenNodes& between_nodes, IsClosing is_closing);

  /// Call this before a send or a receive. `rank` may be `any_peer`. Throws `internal` if there is
  /// no memory for the rings or buffers.
  void open(int rank, Carrier::Use use);
  /// The memory must stay valid until the call is over, or until nobody calls `step` any more.
  void send(SessionTime now, TransferId call, const Envelope& envelope,
            std::span<const std::byte> data);
  void receive(SessionTime now, TransferId call, const Envelope& envelope,
               std::span<std::byte> data);
  /// See Endpoint::close.
  void close(SessionTime now);
  /// Whether `close` was called, every call is over, and the other ranks can see it.
  bool has_left() const { return endpoint_.has_left() && !node_.has_outbox(); }

  /// Looks at everything that may have changed. Returns true if something moved. Throws `timeout`
  /// if the elements of a call have stopped moving (see Endpoint::check_transfers). Then the store
  /// must end.
  bool step(SessionTime now);
  /// The calls that have ended since the last call of this function.
  std::vector<TransferDone> take_finished() { return std::exchange(finished_, {}); }

  bool empty() const { return data_.empty(); }
  /// Whether elements are on their way, so that somebody must go on calling `step`.
  bool is_moving() const { return node_.is_moving() || (remote_ && remote_->is_moving()); }
  /// Whether elements are on their way between nodes.
  bool is_moving_between_nodes() const { return remote_ && remote_->is_moving(); }
  /// Whether it waits for something that rings no bell.
  bool is_polling() const { return remote_ && (waits_between_nodes_ > 0 || remote_->is_sending()); }
  std::optional<SessionTime> next_tick() const { return endpoint_.next_tick(); }
  std::size_t buffer_bytes() const;
  std::uint64_t bytes_between_nodes() const { return remote_ ? remote_->bytes_sent() : 0; }
  std::string describe() const { return endpoint_.describe(); }

 private:
  struct Data {
    std::span<std::byte> memory;  ///< the memory of a send is only read
    bool between_nodes = false;
  };
  /// This rank found that another one closes its store while a call needs it.
  struct Closing {
    SessionTime found;
    int looks = 0;  ///< for frames, since then
  };

  bool is_here(int rank) const;
  Carrier& carrier(int rank);
  void keep(TransferId call, int peer, std::span<std::byte> memory);
  void find_departures(SessionTime now);
  void hear();
  /// Whether frames of a rank that closes its store may still be on their way.
  bool may_be_heard(int rank) const;
  /// The earliest time at which that rank can have made an eager send.
  SessionTime posted_after(int from) const;
  bool apply();
  void apply(const Post& action);
  void apply(const MoveOut& action);
  void apply(const MoveIn& action);
  void apply(const Take& action);
  void apply(TransferDone& action);

  const topology::Topology& topology_;
  Endpoint endpoint_;
  const IsClosing is_closing_;
  NodeCarrier node_;
  std::optional<MpiCarrier> remote_;
  std::unordered_map<TransferId, Data> data_;  ///< of the calls that are not over
  std::size_t waits_between_nodes_ = 0;        ///< calls that may have to do with another node
  bool closing_ = false;
  std::vector<int> departed_;                     ///< found at the beginning of a step
  std::vector<std::optional<Closing>> closings_;  ///< by rank
  Looks looks_here_;
  Looks looks_between_nodes_;
  std::vector<TransferDone> finished_;
  News news_;
};

}  // namespace tutti::p2p
