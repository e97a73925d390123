#include "shm/group_board.h"

#include <algorithm>

#include "base/failure.h"
#include "base/pages.h"

namespace tutti::shm {
namespace {

constexpr std::uint32_t not_failed = 0;
constexpr std::uint32_t being_written = 1;
constexpr std::uint32_t written = 2;

/// Copies text, and adds a zero.
template <std::size_t size>
void copy_text(const std::string& text, std::array<char, size>& to) {
  const std::size_t length = std::min(text.size(), size - 1);
  std::copy_n(text.begin(), length, to.begin());
  to[length] = '\0';
}

std::size_t lines(std::size_t bytes) {
  return (bytes + base::cache_line - 1) / base::cache_line * base::cache_line;
}

}  // namespace

std::size_t GroupBoard::bytes(int local_size, std::size_t slots) {
  return base::whole_pages(static_cast<std::size_t>(local_size) * sizeof(Member) +
                           lines(sizeof(Head)) + LaunchLog::words(slots) * sizeof(LaunchLog::Word));
}

GroupBoard::GroupBoard(std::span<std::byte> memory, int local_size, int local_index,
                       std::size_t slots)
    : local_size_(local_size), local_index_(local_index) {
  base::check(memory.size() >= bytes(local_size, slots), "the memory holds the group's board");
  const auto ranks = static_cast<std::size_t>(local_size);
  std::byte* const head = memory.data() + ranks * sizeof(Member);
  members_ = {reinterpret_cast<Member*>(memory.data()), ranks};
  head_ = reinterpret_cast<Head*>(head);
  ring_ = {reinterpret_cast<LaunchLog::Word*>(head + lines(sizeof(Head))), LaunchLog::words(slots)};
}

void GroupBoard::set_place(const std::string& place) const {
  copy_text(place, mine().place);
}

bool GroupBoard::holds(Since Member::*since, std::uint64_t sequence) const {
  return std::ranges::all_of(members_, [&](const Member& member) {
    const std::uint64_t first = (member.*since).load();
    return 0 < first && first <= sequence + 1;
  });
}

void GroupBoard::set(Since Member::*since, std::uint64_t sequence) const {
  if ((mine().*since).load() == 0) (mine().*since).store(sequence + 1);
}

bool GroupBoard::are_places_distinct() const {
  std::vector<std::string> places;
  for (const Member& member : members_) places.emplace_back(member.place.data());
  std::ranges::sort(places);
  return std::ranges::adjacent_find(places) == places.end();
}

void GroupBoard::set_version(int version) const {
  mine().version = version;
  ring_all();
}

std::vector<int> GroupBoard::versions() const {
  std::vector<int> versions;
  for (const Member& member : members_) versions.push_back(member.version.load());
  return versions;
}

void GroupBoard::set_id(const Id& id) const {
  base::check(is_first(), "the node's first rank makes the communicator's id");
  head_->id = id;
  head_->has_id = true;
  ring_all();
}

bool GroupBoard::has_id() const {
  return head_->has_id;
}

const GroupBoard::Id& GroupBoard::id() const {
  return head_->id;
}

void GroupBoard::fail(const std::string& cause) const {
  std::uint32_t before = not_failed;
  if (!mine().failed.compare_exchange_strong(before, being_written)) return;
  copy_text(cause, mine().cause);
  mine().failed = written;
  ring_all();
}

std::vector<GroupBoard::Failure> GroupBoard::failures() const {
  std::vector<Failure> failures;
  for (int local = 0; local < local_size_; ++local) {
    if (member(local).failed == written) failures.push_back({local, member(local).cause.data()});
  }
  return failures;
}

void GroupBoard::ring_all() const {
  for (Member& member : members_) member.bell.ring();
}

}  // namespace tutti::shm
