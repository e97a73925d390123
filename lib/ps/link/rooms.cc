#include "ps/link/rooms.h"

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "base/pages.h"

namespace tutti::ps {
namespace {

/// The number of bytes that are reserved from the system in one step.
constexpr std::size_t reserve_step = std::size_t{4} << 20;

}  // namespace

Rooms::Rooms(base::Fd file, std::size_t bytes)
    : file_(std::move(file)), memory_(base::map_file(file_, bytes)), free_{{0, bytes}} {}

std::optional<Room> Rooms::take(std::size_t bytes) {
  const std::uint64_t wanted = base::whole_pages(bytes);
  const auto it =
      std::ranges::find_if(free_, [wanted](const auto& one) { return one.second >= wanted; });
  if (it == free_.end() || !reserve(it->first + wanted)) return std::nullopt;
  const auto [offset, size] = *it;
  free_.erase(it);
  if (size > wanted) free_.emplace(offset + wanted, size - wanted);
  return Room{.offset = offset, .bytes = wanted};
}

void Rooms::give_back(const Room& room) {
  auto it = free_.emplace(room.offset, room.bytes).first;
  const auto after = std::next(it);
  if (after != free_.end() && it->first + it->second == after->first) {
    it->second += after->second;
    free_.erase(after);
  }
  if (it == free_.begin()) return;
  const auto before = std::prev(it);
  if (before->first + before->second != it->first) return;
  before->second += it->second;
  free_.erase(it);
}

std::span<std::byte> Rooms::at(const Room& room) const {
  return memory_->span().subspan(room.offset, room.bytes);
}

/// A shortage of memory shows here, where it is no error. If it showed later, when a page is used,
/// it would end the process.
bool Rooms::reserve(std::size_t end) {
  if (end <= reserved_) return true;
  const std::size_t most = std::min(memory_->size(), std::max(end, reserved_ + reserve_step));
  try {
    base::reserve(file_, reserved_, most - reserved_);
  } catch (const Error& error) {
    base::log().debug("no more memory is shared with a server: {}", error.what());
    return false;
  }
  reserved_ = most;
  return true;
}

}  // namespace tutti::ps
