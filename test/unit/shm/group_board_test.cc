#include "shm/group_board.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "../errors.h"

using namespace tutti::shm;

namespace {

constexpr std::size_t slots = 3;

/// A node's board as each of its ranks sees it.
struct RanksOfGroup {
  explicit RanksOfGroup(int size)
      : bytes(GroupBoard::bytes(size, slots)), memory(std::aligned_alloc(4096, bytes), std::free) {
    std::memset(memory.get(), 0, bytes);
    for (int local = 0; local < size; ++local) boards.emplace_back(span(), size, local, slots);
  }
  std::span<std::byte> span() const { return {static_cast<std::byte*>(memory.get()), bytes}; }

  std::size_t bytes;
  std::shared_ptr<void> memory;
  std::vector<GroupBoard> boards;
};

constexpr auto able = &GroupBoard::Member::able;
constexpr auto ready = &GroupBoard::Member::ready;

}  // namespace

TEST_CASE("a batch counts only the communicators that every rank had before its gate") {
  const RanksOfGroup ranks(2);
  CHECK_FALSE(ranks.boards[0].holds(able, 100));
  ranks.boards[0].set(able, 3);
  CHECK_FALSE(ranks.boards[0].holds(able, 100));
  ranks.boards[1].set(able, 5);
  for (const GroupBoard& board : ranks.boards) {
    CHECK_FALSE(board.holds(able, 4));
    CHECK(board.holds(able, 5));
    CHECK(board.holds(able, 6));
    CHECK_FALSE(board.holds(ready, 6));
  }
  ranks.boards[1].set(able, 7);  // it says so before each gate
  CHECK(ranks.boards[0].holds(able, 5));
}

TEST_CASE("two ranks with one place are not distinct, and a long place is cut") {
  const RanksOfGroup ranks(3);
  ranks.boards[0].set_place("GPU-1 of a");
  ranks.boards[1].set_place("GPU-1 of b");
  ranks.boards[2].set_place(std::string(5000, 'x'));
  CHECK(ranks.boards[1].are_places_distinct());
  ranks.boards[1].set_place("GPU-1 of a");
  CHECK_FALSE(ranks.boards[2].are_places_distinct());
  CHECK_FALSE(ranks.boards[2].holds(able, 0));
}

TEST_CASE("ranks learn each other's NCCL, and the first rank's id") {
  const RanksOfGroup ranks(2);
  ranks.boards[1].set_version(22703);
  CHECK(ranks.boards[0].versions() == std::vector{0, 22703});
  CHECK_FALSE(ranks.boards[1].has_id());
  GroupBoard::Id id{};
  id.back() = 'e';
  const std::uint32_t heard = ranks.boards[1].bell().ticket();
  ranks.boards[0].set_id(id);
  CHECK(ranks.boards[1].has_id());
  CHECK(ranks.boards[1].id() == id);
  CHECK(ranks.boards[1].bell().ticket() != heard);
  CHECK(tutti::error_of([&] { ranks.boards[1].set_id(id); }).find("first rank") !=
        std::string::npos);
}

TEST_CASE("a rank fails once, with a cause that all ranks can read") {
  const RanksOfGroup ranks(2);
  CHECK(ranks.boards[0].failures().empty());
  ranks.boards[1].fail(std::string(5000, 'c'));
  ranks.boards[1].fail("another one");
  const auto failures = ranks.boards[0].failures();
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].local == 1);
  CHECK(failures[0].cause.find_first_not_of('c') == std::string::npos);
  CHECK(failures[0].cause.size() > 400);
}

TEST_CASE("the ring of a board lies in it, apart from the words, and a small memory is refused") {
  const RanksOfGroup ranks(2);
  const auto ring = ranks.boards[0].ring();
  CHECK(ring.size() == LaunchLog::words(slots));
  CHECK(static_cast<void*>(ring.data()) == static_cast<void*>(ranks.boards[1].ring().data()));
  const auto* const end = reinterpret_cast<const std::byte*>(ring.data() + ring.size());
  CHECK(end <= ranks.span().data() + ranks.bytes);
  for (LaunchLog::Word& word : ring) word = ~std::uint64_t{0};
  CHECK(ranks.boards[0].versions() == std::vector{0, 0});
  CHECK_FALSE(ranks.boards[0].has_id());
  CHECK(ranks.boards[0].failures().empty());
  CHECK(tutti::error_of([&] {
          GroupBoard(ranks.span().first(ranks.bytes - 1), 2, 0, slots);
        }).find("holds the group's board") != std::string::npos);
}
