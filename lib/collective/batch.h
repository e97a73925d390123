#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reduce/reduce.h"
#include "tutti/kvstore.h"
#include "tutti/reduce_op.h"
#include "tutti/tensor.h"

namespace tutti::collective {

enum class Progress : std::uint8_t { done, moved, waiting };

/// A tensor, or a part of one, in a batch. Views into memory that the runtime keeps.
struct Piece {
  std::span<const void* const> ins;  ///< one a device; none: a rank without data (joined, no root)
  std::span<void* const> outs;       ///< one a device, or none
  std::size_t count = 0;             ///< elements
};

/// What moves together: the pieces one after the other, as one vector of elements. Equal on all
/// ranks but for the addresses.
struct Batch {
  enum class Kind : std::uint8_t { allreduce, broadcast };
  std::uint32_t epoch = 0;
  std::uint64_t number = 0;
  Kind kind = Kind::allreduce;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;  ///< world rank
  WireFormat wire = WireFormat::none;
  double divisor = 1;
  std::vector<Piece> pieces;

  std::size_t count() const;
  std::size_t bytes() const { return count() * size_of(dtype); }
};

/// The part [begin, begin + count) of a batch's vector, copied to and from contiguous memory.
/// `copy_in` reduces over the devices of this process on the way, or fills in the identity.
void copy_in(const Batch& batch, std::size_t begin, std::size_t count, std::byte* to);
void copy_out(const Batch& batch, std::size_t begin, std::size_t count, const std::byte* from);

}  // namespace tutti::collective
