#pragma once
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "net/bytes.h"

namespace tutti::net {

/// Bytes on their way to a socket, which stay where they are until they are written.
struct Slice {
  ConstBytes bytes;
  std::shared_ptr<const void> keeper{};  ///< keeps the bytes; if it is empty, the caller keeps them
};

/// A slice that keeps its bytes itself.
inline Slice kept(Bytes bytes) {
  const auto memory = std::make_shared<const Bytes>(std::move(bytes));
  return {*memory, memory};
}

/// Slices in order. A sender that sends now and then, such as a heartbeat, allocates nothing.
class SliceQueue {
 public:
  bool empty() const { return first_ == slices_.size(); }
  Slice& front() { return slices_[first_]; }
  std::span<Slice> all() { return std::span(slices_).subspan(first_); }
  void push_back(Slice slice) { slices_.push_back(std::move(slice)); }
  void pop_front() {
    slices_[first_++] = {};
    if (2 * first_ < slices_.size()) return;
    slices_.erase(slices_.begin(), slices_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  void clear() {
    slices_.clear();
    first_ = 0;
  }

 private:
  std::vector<Slice> slices_;
  std::size_t first_ = 0;
};

/// Memory for small parts of messages. It is used again once no slice keeps it. Only one thread may
/// use it.
class SliceMemory {
 public:
  /// Returns an empty buffer.
  std::shared_ptr<Bytes> take() {
    for (const auto& one : all_) {
      if (one.use_count() > 1) continue;
      one->clear();
      return one;
    }
    auto fresh = std::make_shared<Bytes>();
    if (all_.size() < most_kept) all_.push_back(fresh);
    return fresh;
  }

 private:
  static constexpr std::size_t most_kept = 8;
  std::vector<std::shared_ptr<Bytes>> all_;
};

}  // namespace tutti::net
