#include "collective/cut.h"

#include <catch2/catch.hpp>
#include <vector>

#include "collective/batch.h"
#include "topology/topology.h"

using tutti::DType;
using tutti::collective::Batch;
using tutti::collective::Cut;
using tutti::collective::Piece;
using tutti::collective::Rows;

namespace {

constexpr std::size_t slot_bytes = 4096;

Batch batch_of(Batch::Kind kind, std::size_t count, int ranks) {
  Batch batch;
  batch.kind = kind;
  batch.dtype = DType::f32;
  Piece piece;
  piece.count = count;
  batch.pieces.push_back(piece);
  if (batch.sharded()) batch.rows = Rows::of_part(count, ranks, 0, count);
  return batch;
}

}  // namespace

TEST_CASE("chunks fit their slots, are as few as can be, cover all, and the last is no small one") {
  constexpr std::size_t most = slot_bytes / sizeof(float);
  const auto topology = tutti::topology::make_topology(0, std::vector<int>{0, 1, 2});
  Cut cut(topology);
  for (const std::size_t count :
       std::vector<std::size_t>{1, 63, 64, 1023, 1024, 1025, 2048, 2049, 5000, 100'000}) {
    cut.start(batch_of(Batch::Kind::allreduce, count, 3), slot_bytes, 7);
    const std::uint64_t chunks = cut.chunks().size();
    CAPTURE(count, chunks);
    CHECK(chunks == (count + most - 1) / most);
    CHECK(cut.chunks().end() == 7 + chunks);
    CHECK(cut.chunks().range(chunks - 1).end == count);
    for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) CHECK(cut.size(chunk) <= most);
    // All but what rounding to whole cache lines takes from it.
    CHECK(cut.size(chunks - 1) + chunks * 64 >= cut.size(0));
  }
}

TEST_CASE("rows of a sharded batch are spread evenly over its chunks, too") {
  constexpr std::size_t most_rows = slot_bytes / sizeof(float) / 3;
  const auto topology = tutti::topology::make_topology(0, std::vector<int>{0, 1, 2});
  Cut cut(topology);
  for (const std::size_t count : std::vector<std::size_t>{1, 3, 1000, 1024, 1025, 3000, 50'001}) {
    for (const Batch::Kind kind : {Batch::Kind::reduce_scatter, Batch::Kind::allgather}) {
      cut.start(batch_of(kind, count, 3), slot_bytes, 0);
      const std::uint64_t chunks = cut.chunks().size();
      const std::size_t rows = (count + 2) / 3;
      CAPTURE(count, chunks);
      CHECK(chunks == (rows + most_rows - 1) / most_rows);
      std::size_t elements = 0;
      for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
        CHECK(cut.size(chunk) * sizeof(float) <= slot_bytes);
        elements += cut.size(chunk);
      }
      CHECK(elements == count);
      CHECK(cut.chunks().range(chunks - 1).size() + chunks * 64 >= cut.chunks().range(0).size());
    }
  }
}
