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
/// of its launch log. The object has views into memory that the caller owns and that the node's
/// ranks share. A new memory of zeros is valid.
///
/// Each rank writes its own words, and any rank reads them. The words that choose how a batch moves
/// are `since` words. Such a word is the sequence + 1 of the first batch before whose gate the rank
/// had what the word is about. The rank writes it before it enters that gate. No rank passes a gate
/// before all have entered it. So all ranks that look after the gate get the same answer for its
/// batch, even if one of them has already entered the next gate.
class GroupBoard {
 public:
  using Since = Flag;
  struct Member {
    Since able;   ///< set when its device is open and `place` is written; 0: not yet
    Since ready;  ///< set when its communicator is connected to all ranks; 0: not yet
    /// The thread that makes the rank's communicator sleeps on it.
    base::Doorbell bell;
    /// The rank's GPU and host, by which NCCL distinguishes ranks. Written before `able`.
    std::array<char, 320> place;
    std::atomic<int> version;  ///< the version of its NCCL, as NCCL counts it; 0: not known yet
    /// If it is not `Failure::none`, the rank has no communicator and will get none.
    std::atomic<std::uint32_t> failed;
    std::array<char, 512> cause;
  };
  struct Failure {
    int local = 0;
    std::string cause;
  };

  static std::size_t bytes(int local_size, std::size_t slots);
  /// `slots` is the number of chunks that may be under way at the same time. Throws `internal` if
  /// the memory is smaller than `bytes`.
  GroupBoard(std::span<std::byte> memory, int local_size, int local_index, std::size_t slots);

  int local_size() const { return local_size_; }
  int local_index() const { return local_index_; }
  bool is_first() const { return local_index_ == 0; }
  std::span<LaunchLog::Word> ring() const { return ring_; }

  /// Cuts a longer text.
  void set_place(const std::string& place) const;
  /// Whether every rank had it before the gate of this batch. Call this after the gate has closed.
  bool holds(Since Member::*since, std::uint64_t sequence) const;
  /// Notes that the rank has it from the next batch on. Only the first call counts.
  void set(Since Member::*since, std::uint64_t sequence) const;
  /// Whether no two ranks have the same GPU. Call this once all ranks are able.
  bool are_places_distinct() const;

  /// Writes the version of this rank's NCCL. Wakes the other ranks' threads.
  void set_version(int version) const;
  /// The versions by local index. 0 if a version is not known yet.
  std::vector<int> versions() const;

  using Id = std::array<char, 128>;
  /// Writes the id by which the other ranks find the communicator. The first rank calls this. It
  /// wakes their threads.
  void set_id(const Id& id) const;
  bool has_id() const;
  /// Call this once `has_id` is true.
  const Id& id() const;

  /// Notes that this rank gets no communicator. Cuts a longer text. Only the first call counts.
  /// Wakes the threads.
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
