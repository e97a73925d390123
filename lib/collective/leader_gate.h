#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "mpi/communicator.h"

namespace tutti::collective {

/// Arrival of all nodes at a gate, exchanged by their leaders: in round j each tells the leader 2^j
/// further on that it, and all it has heard of, have arrived. After ceil(log2 n) rounds everybody
/// has heard of everybody.
///
/// Messages carry epoch and batch. From one peer they come in order, so the last one says it all:
/// of the same epoch and this batch or a later one, the peer has arrived; of an older epoch, it is
/// stale; of a newer one, the peer has resumed already, and so will this rank.
/// The communication thread owns it; nothing blocks.
class LeaderGate {
 public:
  /// `leaders`: one rank a node; this one is `leaders[me]`. The communicator is this gate's alone
  /// and outlives it.
  LeaderGate(const mpi::Communicator& communicator, std::vector<int> leaders, std::size_t me);

  /// This node has arrived, entirely.
  void arrive(std::uint32_t epoch, std::uint64_t number);
  /// Drives the exchange; true once every node has arrived where this one has.
  bool closed();
  /// Forgets the gate that `arrive` was called for.
  void withdraw() { waiting_ = false; }
  std::string describe() const;

 private:
  struct Message {
    std::uint64_t epoch = 0;
    std::uint64_t batch_plus_one = 0;
  };
  struct Round {
    int to = 0;
    int from = 0;
    Message incoming;  ///< the buffer of the receive that is always posted
    Message last;
    mpi::Requests::Id receive = 0;
  };
  struct Sending {
    Message message;
    mpi::Requests::Id id = 0;
  };

  void post(std::size_t round);
  void tell(std::size_t round);
  void collect();

  mpi::Requests requests_;
  std::deque<Round> rounds_;  ///< a deque: buffers must not move
  std::deque<Sending> sending_;
  Message gate_;
  bool waiting_ = false;
  std::size_t round_ = 0;
};

}  // namespace tutti::collective
