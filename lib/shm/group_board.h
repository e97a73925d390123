#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/cache_line.h"
#include "base/doorbell.h"
#include "shm/launch_log.h"
#include "shm/node_memory.h"

namespace tutti::shm {

/// Words by which the ranks of a node tell each other about their NCCL communicator, and the ring
/// of its launch log. Views into memory that the caller owns and that the node's ranks share. All
/// zeros is a valid beginning.
///
/// Each rank writes its own words, and any rank reads them. The words that choose how a batch moves
/// are `since` words: the sequence + 1 of the first batch before whose gate the rank had the thing
/// in question. A rank writes such a word before it enters that gate. Since nobody passes a gate
/// before all have entered it, all ranks that look after the gate get the same answer for its
/// batch, though one of them may have entered the next gate already.
class GroupBoard {
 public:
  using Since = Flag;
  struct Member {
    Since able;   ///< its device is open, and `place` is written; 0: not yet
    Since ready;  ///< its communicator is connected to all peers; 0: not yet
    /// The thread that makes the rank's communicator sleeps on it.
    base::Doorbell bell;
    /// The rank's GPU and host, as NCCL tells ranks apart. Written before `able`.
    std::array<char, 320> place;
    std::atomic<int> version;  ///< of its NCCL, as that counts; 0: not known yet
    /// Not `Failure::none`: the rank has no communicator and will get none.
    std::atomic<std::uint32_t> failed;
    std::array<char, 512> cause;
  };
  struct Failure {
    int local = 0;
    std::string cause;
  };

  static std::size_t bytes(int local_size, std::size_t slots);
  /// `slots`: how many chunks may be under way at once. Throws `internal` if the memory is smaller
  /// than `bytes`.
  GroupBoard(std::span<std::byte> memory, int local_size, int local_index, std::size_t slots);

  int local_size() const { return local_size_; }
  int local_index() const { return local_index_; }
  bool is_first() const { return local_index_ == 0; }
  std::span<LaunchLog::Word> ring() const { return ring_; }

  /// Longer text is cut.
  void set_place(const std::string& place) const;
  /// Whether every rank had that before the gate of this batch. Call it after the gate has closed.
  bool holds(Since Member::*since, std::uint64_t sequence) const;
  /// For the batch after which a rank has something. The first call counts.
  void set(Since Member::*since, std::uint64_t sequence) const;
  /// True if no two ranks have the same GPU. Call it once all ranks are able.
  bool are_places_distinct() const;

  /// This rank's NCCL. Wakes the other ranks' threads.
  void set_version(int version) const;
  /// By local index; 0: not known yet.
  std::vector<int> versions() const;

  using Id = std::array<char, 128>;
  /// The first rank sets it: the others find the communicator by this id. Wakes their threads.
  void set_id(const Id& id) const;
  bool has_id() const;
  /// Call it once `has_id` is true.
  const Id& id() const;

  /// This rank gets no communicator. Longer text is cut; the first call counts. Wakes the threads.
  void fail(const std::string& cause) const;
  /// Returns the failures of all ranks so far.
  std::vector<Failure> failures() const;

  base::Doorbell& bell() const { return mine().bell; }

 private:
  struct Head {
    std::atomic<bool> has_id;
    Id id;
  };

  Member& member(int local) const { return members_[static_cast<std::size_t>(local)]; }
  Member& mine() const { return member(local_index_); }
  void ring_all() const;

  int local_size_;
  int local_index_;
  std::span<Member> members_;
  Head* head_;
  std::span<LaunchLog::Word> ring_;
};

}  // namespace tutti::shm
