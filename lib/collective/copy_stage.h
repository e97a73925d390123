#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/chunks.h"

namespace tutti::collective {

/// The progress of a stage whose work goes on after it has begun, such as copies. Chunks begin in
/// order and end in order. The last chunks that have begun may still be under way.
class CopyStage {
 public:
  /// Stands for the work that has begun.
  using Mark = std::uint64_t;

  /// `most_under_way` is how many chunks may have begun and not be over.
  explicit CopyStage(std::size_t most_under_way) : marks_(most_under_way) {}

  void start() {
    begun = {};
    over_ = 0;
  }
  /// Notes that nothing is copied: all chunks are over.
  void leave_out(std::uint64_t chunks) { begun.chunk = over_ = chunks; }
  /// Notes that the last work of this chunk has begun.
  void next_chunk(Mark mark) {
    marks_[begun.chunk % marks_.size()] = mark;
    begun.next_chunk();
  }
  /// Whether the next chunk is over now. `is_over(mark)` says that of a mark.
  template <typename IsOver>
  bool poll_over(const IsOver& is_over) {
    if (!is_under_way() || !is_over(marks_[over_ % marks_.size()])) return false;
    ++over_;
    return true;
  }
  std::uint64_t over() const { return over_; }
  bool is_under_way() const { return over_ < begun.chunk; }

  Cursor begun;  ///< the chunks that have begun, and the elements of the next one

 private:
  std::uint64_t over_ = 0;
  std::vector<Mark> marks_;  ///< of the chunks under way
};

}  // namespace tutti::collective
