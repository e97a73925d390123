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

constexpr std::size_t slot_bytes = 256 << 10;
constexpr std::size_t page = 4096 / sizeof(float);

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
  for (const std::size_t count : std::vector<std::size_t>{1, 3071, 3072, 65'535, 65'536, 65'537,
                                                          140'000, 250'000, 2'500'000}) {
    cut.start(batch_of(Batch::Kind::allreduce, count, 3), slot_bytes, 7);
    const std::uint64_t chunks = cut.chunks().size();
    CAPTURE(count, chunks);
    CHECK(chunks == (count + most - 1) / most);
    CHECK(cut.chunks().end() == 7 + chunks);
    CHECK(cut.chunks().range(chunks - 1).end == count);
    for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) CHECK(cut.size(chunk) <= most);
    // All but what rounding each node's part of the others to whole pages takes from it.
    CHECK(cut.size(chunks - 1) + chunks * 3 * page >= cut.size(0));
    CHECK((chunks == 1 || cut.size(0) == most || cut.size(0) % (3 * page) == 0));
  }
}

TEST_CASE("rows of a sharded batch are spread evenly over its chunks, too") {
  constexpr std::size_t most_rows = slot_bytes / sizeof(float) / 3;
  const auto topology = tutti::topology::make_topology(0, std::vector<int>{0, 1, 2});
  Cut cut(topology);
  for (const std::size_t count :
       std::vector<std::size_t>{1, 3, 65'535, 65'536, 65'538, 140'001, 2'500'000}) {
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
      CHECK(cut.chunks().range(chunks - 1).size() + chunks * page >= cut.chunks().range(0).size());
    }
  }
}
