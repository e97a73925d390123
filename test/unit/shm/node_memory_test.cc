#include "shm/node_memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <tuple>

#include "tutti/error.h"

using namespace tutti::shm;

namespace {

/// One node's memory as each of its ranks sees it.
struct RanksOfNode {
  explicit RanksOfNode(const NodeMemory::Layout& layout)
      : segment(layout.bytes() / 64), arena(1 << 16), bells(count(layout)) {
    std::vector<tutti::base::Doorbell*> all;
    for (auto& bell : bells) all.push_back(&bell);
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(segment.data()), layout.bytes());
    for (int local = 0; local < layout.local_size; ++local) {
      views.emplace_back(bytes, layout, local, all,
                         std::vector<std::span<std::byte>>(count(layout), arena));
    }
  }
  static std::size_t count(const NodeMemory::Layout& layout) {
    return static_cast<std::size_t>(layout.local_size);
  }

  struct alignas(64) Line {
    std::byte bytes[64]{};
  };
  std::vector<Line> segment;
  std::vector<std::byte> arena;
  std::vector<tutti::base::Doorbell> bells;
  std::vector<NodeMemory> views;
};

constexpr NodeMemory::Layout layout{.local_size = 3,
                                    .slots = 2,
                                    .slot_bytes = 5000,
                                    .eager_bytes = 100,
                                    .small_results = true,
                                    .half_bytes = 5000};

}  // namespace

TEST_CASE("the parts of a node's segment lie in it, apart and on cache lines of their own") {
  const RanksOfNode ranks(layout);
  const NodeMemory& memory = ranks.views[0];
  std::vector<std::pair<const std::byte*, std::size_t>> parts;
  for (int local = 0; local < 3; ++local) {
    parts.emplace_back(reinterpret_cast<const std::byte*>(&memory.block(local)), sizeof(RankBlock));
    for (std::uint64_t i = 0; i < 2; ++i) parts.emplace_back(memory.staging_in(local, i), 5000);
    for (std::uint64_t i = 0; i < batches_alive; ++i) {
      parts.emplace_back(memory.small(local, i), 100);
    }
    parts.emplace_back(memory.half(local), 5000);
  }
  for (std::uint64_t i = 0; i < 2; ++i) parts.emplace_back(memory.staging_out(i), 5000);
  for (std::uint64_t i = 0; i < batches_alive; ++i) {
    parts.emplace_back(memory.small_result(i), 100);
    parts.emplace_back(reinterpret_cast<const std::byte*>(&memory.claims(i)), sizeof(Claims));
  }
  parts.emplace_back(reinterpret_cast<const std::byte*>(&memory.closed_flag()), sizeof(Flag));
  std::sort(parts.begin(), parts.end());
  const auto* end = reinterpret_cast<const std::byte*>(ranks.segment.data());
  for (const auto& [begin, bytes] : parts) {
    CHECK(reinterpret_cast<std::uintptr_t>(begin) % 64 == 0);
    CHECK(begin >= end);
    end = begin + bytes;
  }
  CHECK(end <= reinterpret_cast<const std::byte*>(ranks.segment.data()) + layout.bytes());
}

TEST_CASE("each page of the segment is of one rank, and staging memory of the rank that fills it") {
  for (const auto& [ranks, slot_bytes, eager_bytes] :
       {std::tuple{1, 5000U, 100U}, {3, 5000U, 100U}, {7, 100'000U, 0U}, {4, 65'536U, 70'000U}}) {
    const NodeMemory::Layout size{
        .local_size = ranks, .slots = 2, .slot_bytes = slot_bytes, .eager_bytes = eager_bytes};
    CAPTURE(ranks, slot_bytes, eager_bytes);
    std::map<std::size_t, std::size_t> ends;
    for (int local = 0; local < ranks; ++local) {
      for (const auto& [begin, bytes] : size.extents_of(local)) {
        if (bytes > 0) CHECK(ends.emplace(begin, begin + bytes).second);
      }
    }
    std::size_t end = 0;
    for (const auto& [begin, next] : ends) {
      CHECK(begin == end);
      CHECK(next % 4096 == 0);
      end = next;
    }
    CHECK(end == size.bytes());
  }
  // The sizes are whole pages, so that a rank's part begins where its extent does.
  NodeMemory::Layout pages = layout;
  pages.eager_bytes = 4096;
  const RanksOfNode ranks(pages);
  const auto offset = [&](const std::byte* at) {
    return static_cast<std::size_t>(at - reinterpret_cast<const std::byte*>(ranks.segment.data()));
  };
  for (int local = 0; local < 3; ++local) {
    const auto extents = pages.extents_of(local);
    CHECK(extents[1].begin == offset(ranks.views[0].staging_in(local, 0)));
    CHECK(extents[2 + pages.slots].begin == offset(ranks.views[0].small(local, 0)));
  }
  CHECK(pages.extents_of(0)[3 + pages.slots].begin == offset(ranks.views[0].small_result(0)));
  for (int local = 0; local < 3; ++local) {
    CHECK(pages.extents_of(local).back().begin == offset(ranks.views[0].half(local)));
  }
}

TEST_CASE("all ranks see the same segment, and staging memory comes round again") {
  const RanksOfNode ranks(layout);
  CHECK(ranks.views[0].staging_in(1, 7) == ranks.views[2].staging_in(1, 5));
  CHECK(ranks.views[0].staging_in(1, 7) != ranks.views[0].staging_in(1, 8));
  CHECK(ranks.views[0].staging_out(4) == ranks.views[1].staging_out(6));
  CHECK(ranks.views[0].small(2, 1) == ranks.views[1].small(2, 1 + batches_alive));
  CHECK(&ranks.views[1].mine() == &ranks.views[0].block(1));
}

TEST_CASE("a stripe has one claimant, for one batch, and is there when that one says so") {
  const RanksOfNode ranks(layout);
  for (const std::uint64_t batch : {0U, 5U, 10U}) {
    CAPTURE(batch);
    Claims& claims = ranks.views[1].claims(batch);
    CHECK(&claims == &ranks.views[2].claims(batch));
    CHECK(claims.claim(3, batch));
    CHECK_FALSE(claims.claim(3, batch));
    CHECK_FALSE(claims.is_fulfilled(3, batch));
    claims.fulfil(3, batch);
    CHECK_FALSE(claims.claim(3, batch));
    CHECK(claims.is_fulfilled(3, batch));
    CHECK_FALSE(claims.is_fulfilled(3, batch + batches_alive));
    CHECK_FALSE(claims.is_fulfilled(4, batch));
  }
}

TEST_CASE("a raised flag wakes the others only when it was the lowest") {
  const RanksOfNode ranks(layout);
  const auto rings = [&] {
    std::vector<std::uint32_t> all;
    for (const auto& bell : ranks.bells) all.push_back(bell.rings.load());
    return all;
  };
  using Rings = std::vector<std::uint32_t>;
  ranks.views[0].raise(&RankBlock::reduced, 2);
  ranks.views[1].raise(&RankBlock::reduced, 1);
  CHECK(rings() == Rings{0, 0, 0});
  CHECK(ranks.views[0].least(&RankBlock::reduced) == 0);
  ranks.views[2].raise(&RankBlock::reduced, 3);
  CHECK(rings() == Rings{1, 1, 0});
  CHECK(ranks.views[0].least(&RankBlock::reduced) == 1);
  ranks.views[0].raise(&RankBlock::reduced, 4);
  CHECK(rings() == Rings{1, 1, 0});
  ranks.views[1].raise(&RankBlock::reduced, 2);
  CHECK(rings() == Rings{2, 1, 1});
  CHECK(ranks.views[2].least(&RankBlock::copied_in) == 0);
}

TEST_CASE("only memory that lies entirely in this rank's arena has an offset in it") {
  const RanksOfNode ranks(layout);
  const NodeMemory& memory = ranks.views[1];
  const std::byte* const arena = ranks.arena.data();
  CHECK(memory.arena_offset(arena, 1 << 16) == 0U);
  CHECK(memory.arena_offset(arena + 300, 10) == 300U);
  CHECK(memory.arena_offset(arena + (1 << 16) - 10, 10) == (1U << 16) - 10);
  CHECK_FALSE(memory.arena_offset(arena + (1 << 16) - 10, 11).has_value());
  CHECK_FALSE(memory.arena_offset(arena - 1, 10).has_value());
  CHECK_FALSE(memory.arena_offset(&memory, 1).has_value());
  CHECK_FALSE(memory.arena_offset(nullptr, 0).has_value());
  CHECK(memory.in_arena(2, 300) == arena + 300);
}

TEST_CASE("a segment smaller than its layout is refused") {
  std::vector<std::byte> segment(layout.bytes() - 1);
  CHECK_THROWS_AS(NodeMemory(segment, layout, 0, {}, {}), tutti::Error);
}
