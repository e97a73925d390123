#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "coordinator/types.h"
#include "runtime/inbox.h"

namespace tutti::runtime {

/// The tensor calls in flight, by id. An id is used again once its call is over, so that repeated
/// steps allocate nothing here.
class CallTable {
 public:
  struct Entry {
    std::shared_ptr<CallList> list;  ///< keeps the call alive
    TensorCall* call = nullptr;      ///< null: none has this id
    std::uint64_t sequence = 0;
  };

  coordinator::CallId add(const std::shared_ptr<CallList>& list, TensorCall& call) {
    if (free_.empty()) {
      entries_.emplace_back();
      free_.push_back(entries_.size());  // 0 is no call
    }
    const coordinator::CallId id = free_.back();
    free_.pop_back();
    entries_[id - 1] = {list, &call, submissions_++};
    return id;
  }
  const TensorCall& at(coordinator::CallId id) const {
    base::check(id > 0 && id <= entries_.size() && entries_[id - 1].call != nullptr,
                "a call is known by its id");
    return *entries_[id - 1].call;
  }
  CallList& list_of(coordinator::CallId id) const {
    at(id);
    return *entries_[id - 1].list;
  }
  Entry take(coordinator::CallId id) {
    at(id);
    free_.push_back(id);
    return std::exchange(entries_[id - 1], {});
  }
  bool empty() const { return free_.size() == entries_.size(); }

  /// Calls `visit` with each entry, in any order.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const Entry& entry : entries_) {
      if (entry.call != nullptr) visit(entry);
    }
  }
  /// The entries in the order of submission.
  std::vector<Entry> in_order() const {
    std::vector<Entry> entries;
    std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(entries),
                 [](const Entry& entry) { return entry.call != nullptr; });
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.sequence < b.sequence; });
    return entries;
  }

 private:
  std::vector<Entry> entries_;
  std::vector<coordinator::CallId> free_;
  std::uint64_t submissions_ = 0;
};

}  // namespace tutti::runtime
