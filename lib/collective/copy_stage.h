#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/chunks.h"
#include "collective/ends.h"

namespace tutti::collective {

/// How far a stage has come that copies chunk after chunk. Chunks are begun in order. They are over
/// in order, too, and the last ones that were begun may still be under way.
class CopyStage {
 public:
  /// `most_under_way`: how many chunks may have been begun and not be over.
  CopyStage(Ends::Side side, std::size_t most_under_way) : side_(side), marks_(most_under_way) {}

  void start() {
    begun = {};
    over_ = 0;
  }
  /// Nothing is copied: all chunks are over.
  void leave_out(std::uint64_t chunks) { begun.chunk = over_ = chunks; }
  /// The last copy of this chunk was begun.
  void next_chunk(Ends& ends) {
    marks_[begun.chunk % marks_.size()] = ends.mark(side_);
    begun.next_chunk();
  }
  /// Whether the next chunk is over now.
  bool poll_over(Ends& ends) {
    if (!is_under_way() || !ends.is_over(side_, marks_[over_ % marks_.size()])) return false;
    ++over_;
    return true;
  }
  std::uint64_t over() const { return over_; }
  bool is_under_way() const { return over_ < begun.chunk; }

  Cursor begun;  ///< chunks, and elements of the next one

 private:
  Ends::Side side_;
  std::uint64_t over_ = 0;
  std::vector<Ends::Mark> marks_;  ///< of the chunks under way
};

}  // namespace tutti::collective
