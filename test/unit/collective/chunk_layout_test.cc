#include "collective/chunk_layout.h"

#include <catch2/catch.hpp>
#include <vector>

#include "base/pages.h"
#include "collective/batch.h"
#include "topology/topology.h"

using tutti::CollectiveKind;
using tutti::DType;
using tutti::collective::Batch;
using tutti::collective::ChunkLayout;
using tutti::collective::Rows;
using tutti::collective::TensorPart;

namespace {

constexpr std::size_t slot_bytes = 256 << 10;
const std::size_t page = tutti::base::page_bytes() / sizeof(float);

Batch batch_of(CollectiveKind kind, std::size_t count, int ranks) {
  Batch batch;
  batch.kind = kind;
  batch.dtype = DType::f32;
  TensorPart part;
  part.count = count;
  batch.parts.push_back(part);
  if (batch.is_sharded()) batch.rows = Rows::of_part(count, ranks, 0, count);
  return batch;
}

}  // namespace

TEST_CASE("chunks fit their slots, are as few as can be, cover all, and the last is no small one") {
  constexpr std::size_t most = slot_bytes / sizeof(float);
  const auto topology = tutti::topology::make_topology(0, std::vector<int>{0, 1, 2});
  ChunkLayout layout(topology);
  for (const std::size_t count : std::vector<std::size_t>{1, 3071, 3072, 65'535, 65'536, 65'537,
                                                          140'000, 250'000, 2'500'000}) {
    layout.start(batch_of(CollectiveKind::allreduce, count, 3), slot_bytes, 7);
    const std::uint64_t chunks = layout.chunks().size();
    CAPTURE(count, chunks);
    CHECK(chunks == (count + most - 1) / most);
    CHECK(layout.chunks().end() == 7 + chunks);
    CHECK(layout.chunks().range(chunks - 1).end == count);
    for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) CHECK(layout.size(chunk) <= most);
    // All but what rounding each node's part of the others to whole pages takes from it.
    CHECK(layout.size(chunks - 1) + chunks * 3 * page >= layout.size(0));
    CHECK((chunks == 1 || layout.size(0) == most || layout.size(0) % (3 * page) == 0));
  }
}

TEST_CASE("rows of a sharded batch are spread evenly over its chunks, too") {
  constexpr std::size_t most_rows = slot_bytes / sizeof(float) / 3;
  const auto topology = tutti::topology::make_topology(0, std::vector<int>{0, 1, 2});
  ChunkLayout layout(topology);
  for (const std::size_t count :
       std::vector<std::size_t>{1, 3, 65'535, 65'536, 65'538, 140'001, 2'500'000}) {
    for (const CollectiveKind kind : {CollectiveKind::reduce_scatter, CollectiveKind::allgather}) {
      layout.start(batch_of(kind, count, 3), slot_bytes, 0);
      const std::uint64_t chunks = layout.chunks().size();
      const std::size_t rows = (count + 2) / 3;
      CAPTURE(count, chunks);
      CHECK(chunks == (rows + most_rows - 1) / most_rows);
      std::size_t elements = 0;
      for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
        CHECK(layout.size(chunk) * sizeof(float) <= slot_bytes);
        elements += layout.size(chunk);
      }
      CHECK(elements == count);
      CHECK(layout.chunks().range(chunks - 1).size() + chunks * page >=
            layout.chunks().range(0).size());
    }
  }
}
