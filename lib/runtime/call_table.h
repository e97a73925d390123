#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "coordinator/types.h"
#include "runtime/inbox.h"

namespace tutti::runtime {

/// The tensor calls in flight, by id. An id is used again once its call is over, and so is its
/// memory: steps that repeat allocate nothing here. Calls stay where they are.
class CallTable {
 public:
  coordinator::CallId add(TensorCall call) {
    if (free_.empty()) {
      calls_.emplace_back();
      free_.push_back(calls_.size());  // 0 is no call
    }
    const coordinator::CallId id = free_.back();
    free_.pop_back();
    calls_[id - 1] = Entry{std::move(call), submissions_++};
    return id;
  }
  TensorCall& at(coordinator::CallId id) {
    base::check(id > 0 && id <= calls_.size() && calls_[id - 1], "a call is known by its id");
    return calls_[id - 1]->call;
  }
  TensorCall take(coordinator::CallId id) {
    TensorCall call = std::move(at(id));
    calls_[id - 1].reset();
    free_.push_back(id);
    return call;
  }
  bool empty() const { return free_.size() == calls_.size(); }
  std::size_t size() const { return calls_.size() - free_.size(); }

  /// In the order of submission.
  std::vector<const TensorCall*> in_order() const {
    std::vector<const Entry*> entries;
    for (const std::optional<Entry>& entry : calls_) {
      if (entry) entries.push_back(&*entry);
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry* a, const Entry* b) { return a->sequence < b->sequence; });
    std::vector<const TensorCall*> calls;
    calls.reserve(entries.size());
    for (const Entry* entry : entries) calls.push_back(&entry->call);
    return calls;
  }

 private:
  struct Entry {
    TensorCall call;
    std::uint64_t sequence = 0;
  };
  std::uint64_t submissions_ = 0;
  std::deque<std::optional<Entry>> calls_;
  std::vector<coordinator::CallId> free_;
};

}  // namespace tutti::runtime
