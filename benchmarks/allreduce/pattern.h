#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/reduce_op.h"
#include "tutti/tensor.h"

namespace tutti::bench {

/// Inputs whose sum (average, minimum, maximum) over all ranks every rank knows without
/// communication, and that is exact in every dtype (up to 127 ranks; an average in less than 32
/// bits up to 11, because its inputs are multiples of the number of ranks). They are small whole
/// numbers that repeat with a prime period. They are shifted by rank and by turn, so that a slice
/// from a wrong place, rank or turn is found.
class Pattern {
 public:
  Pattern(DType dtype, int ranks, ReduceOp op = ReduceOp::sum);

  /// Writes the input of `rank` in `turn`.
  void fill(void* data, std::size_t count, int rank, std::uint64_t turn) const;
  /// Counts the elements that are not the sum (or what else the operation makes) of all ranks'
  /// inputs of `turn`. `data` has the elements from `first` on.
  std::size_t wrong_in_sum(const void* data, std::size_t count, std::uint64_t turn,
                           std::size_t first = 0) const;
  /// Counts the elements that are not the input of `rank` in `turn`, from its `first` element on.
  std::size_t wrong_in_copy(const void* data, std::size_t count, int rank, std::uint64_t turn,
                            std::size_t first = 0) const;

 private:
  /// Many periods of a sequence in the dtype, so that long stretches are copied and compared at
  /// once.
  struct Sequence {
    std::vector<std::byte> bytes;
  };
  Sequence encode(const std::vector<int>& period) const;
  std::size_t wrong(const Sequence& expected, std::size_t phase, const void* data,
                    std::size_t count) const;

  DType dtype_;
  std::size_t width_;
  Sequence input_;
  Sequence result_;
};

}  // namespace tutti::bench
