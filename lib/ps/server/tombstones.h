#pragma once
#include <list>
#include <set>

#include "ps/durable/archive.h"
#include "ps/protocol/messages.h"

namespace tutti::ps {

/// Rounds that have failed before all workers had come to them. Each worker that had not come gets
/// the same failure for its next contribution, which belongs to the failed round: so its later ones
/// meet the others' later ones.
class Tombstones {
 public:
  bool empty() const { return stones_.empty(); }
  /// The round has failed, and these workers have yet to come to it.
  void add(const Failure& failure, std::set<int> absent);
  /// The oldest failure that this worker has yet to hear; null: none.
  const Failure* first(int worker) const;
  /// The worker has heard of the oldest.
  void take(int worker);
  /// The worker comes to no round any more.
  void forget(int worker);

  void save(ArchiveWriter& to) const;
  void load(ArchiveReader& from);

 private:
  struct Tombstone {
    Failure failure;
    std::set<int> absent;
  };

  std::list<Tombstone> stones_;  ///< most pieces have none, and these take no memory of their own
};

}  // namespace tutti::ps
