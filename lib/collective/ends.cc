#include "collective/ends.h"

namespace tutti::collective {

void HostEnds::copy_in(const Batch& batch, std::span<const PieceIn> pieces) {
  std::size_t count = 0;
  for (const PieceIn& piece : pieces) count += piece.range.size();
  stores_.write(count * size_of(batch.dtype), [&](bool around) {
    for (const PieceIn& piece : pieces) {
      collective::copy_in(batch, piece.range, piece.to, around);
    }
  });
}

void HostEnds::copy_out(const Batch& batch, std::span<const PieceOut> pieces, bool streaming) {
  for (const PieceOut& piece : pieces) {
    collective::copy_out(batch, piece.range, piece.from, streaming);
  }
}

}  // namespace tutti::collective
