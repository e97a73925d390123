#include "ps/protocol/rows.h"

#include <catch2/catch.hpp>
#include <numeric>

using namespace tutti;
using namespace tutti::ps;
using Rows = std::vector<std::int64_t>;

namespace {

std::byte* bytes(std::vector<float>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

}  // namespace

TEST_CASE("a row that lies on a cut is in both pieces") {
  const Shape shape{4, 5};
  const Shard first = shard(20, 0, 3);   // elements 0 to 5
  const Shard second = shard(20, 1, 3);  // 6 to 12
  CHECK(rows_within(Rows{0, 1, 3}, shape, first) == Rows{0, 1});
  CHECK(rows_within(Rows{0, 1, 3}, shape, second) == Rows{1});
  CHECK(count_of_rows(Rows{1}, shape, first) == 1);
  CHECK(count_of_rows(Rows{1}, shape, second) == 4);
}

TEST_CASE("rows come back whole from any number of pieces, and the others are zeros") {
  const Shape shape{7, 3, 2};
  std::vector<float> value(shape.count());
  std::iota(value.begin(), value.end(), 1.0F);
  const Rows rows{0, 2, 3, 6};
  std::vector<float> expected(value.size(), 0);
  for (const std::int64_t row : rows) {
    std::copy_n(value.begin() + row * 6, 6, expected.begin() + row * 6);
  }
  for (int pieces = 1; pieces <= 50; ++pieces) {
    std::vector<float> out(value.size(), -1);
    for (int i = 0; i < pieces; ++i) {
      const Shard piece = shard(value.size(), i, pieces);
      std::vector<float> sent(count_of_rows(rows, shape, piece));
      gather_rows(rows, shape, piece, 4, bytes(value) + piece.begin * 4, bytes(sent));
      scatter_rows(rows, shape, piece, 4, bytes(sent), bytes(out));
    }
    clear_other_rows(rows, shape, 4, bytes(out));
    REQUIRE(out == expected);
  }
}

TEST_CASE("no rows are zeros") {
  std::vector<float> out(6, -1);
  clear_other_rows({}, {2, 3}, 4, bytes(out));
  CHECK(out == std::vector<float>(6, 0));
}
