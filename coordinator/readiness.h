#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinator/fingerprint.h"
#include "coordinator/key_hash.h"
#include "coordinator/messages.h"
#include "coordinator/text.h"

namespace tutti::coordinator {

/// The end of a failed round. It is kept for ranks that come to the round late.
struct Tombstone {
  Round round = 0;
  Failure failure;
};

/// The ranks that have come to the current round of a key.
class Gathering {
 public:
  explicit Gathering(int size) : votes_(static_cast<std::size_t>(size)) {}

  Round round() const { return round_; }
  int count() const { return count_; }
  bool has(int rank) const { return votes_[static_cast<std::size_t>(rank)] != 0; }
  /// The index that the rank passed to `arrive`.
  std::size_t vote(int rank) const { return votes_[static_cast<std::size_t>(rank)] - 1U; }
  Time since() const { return since_; }

  void arrive(int rank, std::size_t vote, Time since);
  /// Forgets which ranks have come. The round stays the same.
  void clear();
  void go_to(Round round);

  const Failure* tombstone(Round round) const;
  void bury(Failure failure) { tombstones_.push_back({round_, std::move(failure)}); }
  /// Forgets the failed rounds: every rank has come to a later round.
  void forget_tombstones() { tombstones_.clear(); }
  bool has_tombstones() const { return !tombstones_.empty(); }

  /// The time at which the next stall report is due.
  Time notice_at{};

  void fingerprint(Fingerprint& to) const;

 private:
  Round round_ = 0;
  std::vector<std::uint16_t> votes_;  ///< by rank: 0, or the index that the rank passed plus 1
  int count_ = 0;
  Time since_{};  ///< the first arrival
  std::vector<Tombstone> tombstones_;
};

/// A key's current round.
struct KeyState {
  Key key;
  Gathering ranks;
  struct Variant {
    std::optional<KeyId> id;
    Signature signature;
  };
  std::vector<Variant> variants;  ///< signatures reported in this round; two or more are a mismatch
  std::int32_t priority = 0;      ///< the maximum over the ranks
  std::uint64_t start =
      0;  ///< elements moved in earlier epochs; if above 0, only a lost rank can end the round
  bool queued = false;     ///< ready everywhere, given to the planner
  std::vector<KeyId> ids;  ///< its agreed signatures, the oldest first
};

/// The readiness table: every key's state, by slot, and the agreed ids.
class Readiness {
 public:
  using Slot = std::uint32_t;
  /// The number of signatures that are remembered for a key. A further signature takes the id of
  /// the oldest one.
  static constexpr std::size_t ids_per_key = 4;

  explicit Readiness(int size) : size_(size) {}

  Slot slot_of(const Key& key);
  /// Throws `internal` if the id was never given.
  Slot slot_of_id(KeyId id) const;
  const Signature& signature(KeyId id) const { return agreed_[id].signature; }
  KeyState& operator[](Slot slot) { return keys_[slot]; }
  const KeyState& operator[](Slot slot) const { return keys_[slot]; }
  Slot size() const { return static_cast<Slot>(keys_.size()); }

  /// Counts a rank's report of the current round. A rank reports a round once.
  void vote(Slot slot, int rank, const ReadyCall& ready, Time since);
  void vote(Slot slot, int rank, const FreshCall& fresh, Time since);
  /// Returns the id of the signature that all ranks reported. If it is new, appends it to
  /// `agreements`.
  KeyId agree(Slot slot, std::vector<Agreement>& agreements);
  /// Moves the key to `round`. No rank has come to that round yet, and its first `start` elements
  /// have moved.
  void go_to(Slot slot, Round round, std::uint64_t start);
  /// Forgets the reports of the current round, because the ranks will repeat them or the round has
  /// failed.
  void clear_votes(Slot slot);
  std::vector<Said> said(Slot slot) const;
  /// The number of ids that have passed to another signature.
  std::uint64_t given_away() const { return given_away_; }
  /// Whether some key has parts that were done in earlier epochs.
  bool has_started() const { return started_ > 0; }

  void fingerprint(Fingerprint& to) const;

 private:
  struct Agreed {
    Slot slot = 0;
    Signature signature;
  };
  void count(Slot slot, int rank, std::optional<KeyId> id, const Signature& signature,
             std::int32_t priority, Time since);

  int size_;
  std::vector<KeyState> keys_;
  std::unordered_map<Key, Slot, KeyHash> slots_;  ///< looked up, never iterated
  std::vector<Agreed> agreed_;                    ///< by KeyId
  std::uint64_t given_away_ = 0;
  std::size_t started_ = 0;  ///< keys whose start is above 0
};

}  // namespace tutti::coordinator
