#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "ps/worker/in_flight_call.h"

namespace tutti::ps {

/// The pieces of calls that a worker has still to send to one server. The most urgent is first.
/// Pieces of equal priority are in the order in which they were added. The calls for one key keep
/// their order, so a call is no more urgent than an unsent earlier call for its key.
class Outbox {
 public:
  struct Entry {
    std::shared_ptr<InFlightCall> call;
    std::uint32_t piece = 0;
    std::uint32_t pieces = 1;
  };

  /// Adds a piece of a call. The call has a key.
  void add(Entry entry);
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  /// The most urgent entry. Call neither function if the outbox is empty.
  const Entry& next() const { return entries_.begin()->second; }
  Entry take();

 private:
  struct Unsent {
    int priority = 0;  ///< the priority of the entry that was added last
    std::size_t count = 0;
  };
  /// Urgency, then turn.
  using Turn = std::pair<int, std::uint64_t>;
  struct Before {
    bool operator()(const Turn& a, const Turn& b) const {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    }
  };

  std::map<Turn, Entry, Before> entries_;
  std::map<Key, Unsent> unsent_;
  std::uint64_t turns_ = 0;
};

}  // namespace tutti::ps
