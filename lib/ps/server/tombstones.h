#pragma once
#include <list>
#include <set>

#include "ps/durable/archive.h"
#include "ps/protocol/messages.h"

namespace tutti::ps {

/// Rounds that failed before all workers had come to them. A worker that had not come gets the same
/// failure for its next contribution, which belongs to the failed round. So its later contributions
/// meet those of the others.
class Tombstones {
 public:
  bool empty() const { return stones_.empty(); }
  /// Notes that a round has failed, and that these workers have yet to come to it.
  void add(const Failure& failure, std::set<int> absent);
  /// The oldest failure of which this worker has yet to hear. Null if there is none.
  const Failure* first(int worker) const;
  /// Notes that the worker has heard of the oldest failure.
  void take(int worker);
  /// Notes that the worker comes to no round any more.
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
