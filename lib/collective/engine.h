#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective/batch.h"
#include "collective/exchange.h"
#include "collective/leader_gate.h"
#include "collective/relay.h"
#include "collective/tuning.h"
#include "shm/node_memory.h"
#include "topology/topology.h"

namespace tutti::collective {

/// Gates and data of one session on this rank. The communication thread owns it; nothing blocks.
class Engine {
 public:
  /// All references outlive the engine. The communicators are null on one node.
  Engine(const topology::Topology& topology, shm::NodeMemory& memory, mpi::Communicator* data,
         mpi::Communicator* gate, const Tuning& tuning);

  /// Arrives at the batch's gate, and shows the node what it needs to know behind it.
  void enter(const Batch& batch);
  /// Whether every rank has arrived at this gate, which this rank has entered.
  bool closed(std::uint32_t epoch, std::uint64_t number);
  /// The gate will not close: as if it had never been entered.
  void withdraw(std::uint32_t epoch, std::uint64_t number);
  /// The batch's gate has closed; its data moves with each `step`. One batch at a time, in order.
  void start(const Batch& batch);
  /// A bounded piece of work on the started batch.
  Progress step();
  /// MPI transfers are under way that ring no bell.
  bool polling() const;
  std::uint64_t bytes_between_nodes() const;
  std::string describe() const;

 private:
  enum class Path : std::uint8_t { nothing, small, staged, direct };

  Path path_of(const Batch& batch) const;
  bool is_small(const Batch& batch) const;
  bool all_nodes_at(std::uint32_t epoch, std::uint64_t number);
  void forget_gate();
  bool all_in_arenas(std::uint64_t sequence) const;
  void describe_mine(const Batch& batch, std::uint64_t sequence);
  Progress step_small();
  Progress step_staged();
  Progress step_direct();
  bool copy_in_next();
  bool sum_next();
  bool exchange_next();
  bool copy_out_next();
  void sum_slice(std::uint64_t number, topology::Range range);
  void start_relay(std::uint64_t number, topology::Range range);
  bool between_nodes_done(std::uint64_t number);
  bool several_nodes() const { return topology_.node_count() > 1; }
  bool in_a_lane() const { return topology_.local_index() < lanes_; }
  /// The local rank that carries a broadcast to or from other nodes.
  bool carries() const;
  std::size_t slot(std::uint64_t number) const { return number % memory_.layout().slots; }
  topology::Range chunk(std::uint64_t index) const;
  std::uint64_t chunk_number(std::uint64_t index) const { return chunks_before_ + index; }
  void advance(shm::Flag shm::RankBlock::*flag, std::uint64_t index);
  bool is_root() const;

  const topology::Topology& topology_;
  shm::NodeMemory& memory_;
  const int lanes_;
  /// Null on one node, and on ranks that lead none.
  std::unique_ptr<LeaderGate> leader_gate_;
  /// One a slot; none on one node. Exchanges only where this rank is in a lane.
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::vector<std::unique_ptr<Relay>> relays_;
  bool arrived_between_nodes_ = false;
  bool gate_open_ = false;

  std::uint64_t started_ = 0;  ///< batches started: equal on all ranks that stand at the same gate
  std::uint64_t ahead_ = 0;    ///< gates entered beyond them

  const Batch* batch_ = nullptr;
  Path path_ = Path::nothing;
  std::uint64_t sequence_ = 0;
  std::size_t count_ = 0;
  std::size_t chunk_elements_ = 0;
  std::uint64_t chunks_ = 0;
  std::uint64_t chunks_before_ = 0;  ///< of all batches before
  std::uint64_t in_ = 0;             ///< chunks of this batch through each stage
  std::uint64_t summed_ = 0;
  std::uint64_t reduced_ = 0;
  std::uint64_t out_ = 0;
  std::vector<const void*> sources_;
  std::vector<std::byte*> targets_;
  std::vector<std::byte> small_sum_;
};

}  // namespace tutti::collective
