#pragma once
#include <memory>
#include <string>
#include <vector>

#include "../unit/collective/driver.h"
#include "base/mapping.h"
#include "collective/engine.h"
#include "mpi/communicator.h"
#include "shm/arena.h"
#include "shm/group_board.h"

/// This process as a rank of nodes that are made up: which ranks share a node is given. Its engine
/// reaches its own node through memory files of theirs, and the others over MPI.
class Member {
 public:
  /// Collective over all ranks. `leader_of`: by rank, the lowest rank on its node.
  Member(const std::vector<int>& leader_of, const tutti::collective::Tuning& tuning);

  const tutti::topology::Topology& topology() const { return topology_; }
  tutti::shm::Arena& arena() { return *arena_; }
  tutti::collective::Engine& engine() { return *engine_; }
  Driver& driver() { return *driver_; }
  /// When everybody is here.
  void meet() const;

  /// Makes memory for batches with ends of their own, which the node's ranks share, and the board
  /// of their group. Collective.
  void share_device_memory(const tutti::collective::Tuning& tuning);
  const tutti::shm::NodeMemory::Layout& device_layout() const { return device_memory_->layout(); }
  tutti::shm::GroupBoard board() const;
  void open_own_staging(tutti::collective::Grouping& grouping) {
    engine_->open_own_staging(*device_memory_, &grouping);
  }

 private:
  using File = std::shared_ptr<tutti::base::Mapping>;

  /// The node's mappings of a file of each rank, by local index.
  std::vector<tutti::base::Doorbell*> doorbells() const;
  std::vector<File> share(const tutti::base::Fd& mine, std::size_t bytes) const;

  tutti::mpi::Communicator data_;
  tutti::mpi::Communicator gate_;
  tutti::topology::Topology topology_;
  std::shared_ptr<tutti::shm::Arena> arena_;
  tutti::base::Fd own_bell_, own_segment_, own_device_segment_, own_board_;
  std::vector<File> bells_, segments_, arenas_, device_segments_, boards_;
  std::unique_ptr<tutti::shm::NodeMemory> memory_, device_memory_;
  std::unique_ptr<tutti::collective::Engine> engine_;
  std::unique_ptr<Driver> driver_;
};
