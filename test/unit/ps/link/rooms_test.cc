#include "ps/link/rooms.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/pages.h"

using namespace tutti;
using namespace tutti::ps;

namespace {

const std::size_t page = base::page_bytes();

Rooms rooms_of(std::size_t pages) {
  return Rooms(base::create_memory_file("rooms_test", pages * page), pages * page);
}

std::vector<std::uint64_t> offsets(Rooms& rooms, std::initializer_list<std::size_t> pages) {
  std::vector<std::uint64_t> found;
  for (const std::size_t count : pages) {
    const auto room = rooms.take(count * page);
    found.push_back(room ? room->offset / page : SIZE_MAX);
  }
  return found;
}

}  // namespace

TEST_CASE("rooms do not overlap, and there are no more than fit") {
  Rooms rooms = rooms_of(8);
  CHECK(offsets(rooms, {3, 2, 4, 3, 1}) == std::vector<std::uint64_t>{0, 3, SIZE_MAX, 5, SIZE_MAX});
}

TEST_CASE("rooms that are given back are one room again, whatever the order") {
  const auto order = GENERATE(std::vector{0, 1, 2}, std::vector{0, 2, 1}, std::vector{1, 0, 2},
                              std::vector{2, 1, 0}, std::vector{1, 2, 0}, std::vector{2, 0, 1});
  Rooms rooms = rooms_of(6);
  std::vector<Room> taken;
  taken.reserve(3);
  for (int i = 0; i < 3; ++i) taken.push_back(rooms.take(2 * page).value());
  CHECK_FALSE(rooms.take(1));
  for (const int i : order) rooms.give_back(taken[static_cast<std::size_t>(i)]);
  CHECK(rooms.take(6 * page));
}

TEST_CASE("the lowest pages are used again") {
  Rooms rooms = rooms_of(8);
  const Room first = rooms.take(2 * page).value();
  CHECK(rooms.take(2 * page)->offset == 2 * page);
  rooms.give_back(first);
  CHECK(rooms.take(page)->offset == 0);
  CHECK(rooms.take(2 * page)->offset == 4 * page);
}

TEST_CASE("two mappings of a file show the same room") {
  const base::Fd file = base::create_memory_file("rooms_test", 4 * page);
  const auto other = base::map_file(file, 4 * page);
  Rooms rooms(base::Fd(::dup(file.get())), 4 * page);
  static_cast<void>(rooms.take(page));
  const Room room = rooms.take(page).value();
  rooms.at(room)[7] = std::byte{42};
  CHECK(other->span()[page + 7] == std::byte{42});
}
