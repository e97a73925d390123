#include "shm/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/huge_pages.h"
#include "base/pages.h"
#include "tutti/error.h"

namespace tutti::shm {

std::shared_ptr<Arena> Arena::create(std::size_t bytes, const base::Mapper& map,
                                     std::size_t memory) {
  const std::size_t size = bytes / base::page_bytes() * base::page_bytes();
  base::Fd file = base::create_memory_file("arena", size);
  auto mapping = map(file, size);
  return std::shared_ptr<Arena>(
      new Arena(std::move(file), std::move(mapping), std::min(size, memory)));
}

Arena::Arena(base::Fd file, std::shared_ptr<base::Mapping> mapping, std::size_t largest)
    : owner_(::getpid()),
      largest_(largest),
      file_(std::move(file)),
      mapping_(std::move(mapping)),
      free_{{0, mapping_->size()}} {}

std::optional<std::size_t> Arena::find(std::size_t bytes, std::size_t alignment) const {
  for (const auto& [begin, room] : free_) {
    const std::size_t offset = (begin + alignment - 1) / alignment * alignment;
    if (offset - begin <= room && bytes <= room - (offset - begin)) return offset;
  }
  return std::nullopt;
}

std::size_t Arena::take(std::size_t bytes) {
  const base::Lock lock(mutex_);
  const std::size_t huge = base::huge_page_bytes();
  std::optional<std::size_t> offset =
      find(bytes, huge > 0 && bytes >= huge ? huge : base::page_bytes());
  if (!offset) offset = find(bytes, base::page_bytes());
  if (!offset) {
    throw Error(ErrorCode::internal,
                fmt::format("allocate of {} bytes: this rank's {} bytes of shared memory have no "
                            "free range of this size; free tensors from earlier calls of allocate",
                            bytes, mapping_->size()));
  }
  const auto around = std::prev(free_.upper_bound(*offset));
  const auto [begin, room] = *around;
  const std::size_t end = *offset + bytes;
  free_.erase(around);
  if (*offset > begin) free_.emplace(begin, *offset - begin);
  if (begin + room > end) free_.emplace(end, begin + room - end);
  held_ += bytes;
  peak_ = std::max(held(), peak());
  return *offset;
}

void Arena::GiveBack::operator()(void* memory) const {
  const auto offset = static_cast<std::byte*>(memory) - arena->mapping_->data();
  arena->give_back(static_cast<std::size_t>(offset), bytes);
}

void Arena::give_back(std::size_t offset, std::size_t bytes) {
  // A forked child shares the pages with its parent, which goes on using them.
  if (::getpid() != owner_) return;
  // Gives the pages back to the machine. If that fails, they just stay allocated.
  static_cast<void>(::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(offset), static_cast<off_t>(bytes)));
  const base::Lock lock(mutex_);
  held_ -= bytes;
  auto at = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(at); next != free_.end() && offset + bytes == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at != free_.begin()) {
    const auto previous = std::prev(at);
    if (previous->first + previous->second == offset) {
      previous->second += at->second;
      free_.erase(at);
    }
  }
}

std::shared_ptr<void> Arena::allocate(std::size_t bytes) {
  // This is checked first, so that rounding up cannot overflow.
  if (bytes > largest_) {
    throw Error(ErrorCode::internal,
                fmt::format("allocate of {} bytes: this machine has {} bytes of memory; allocate "
                            "a smaller tensor",
                            bytes, largest_));
  }
  const std::size_t size = std::max(base::page_bytes(), base::whole_pages(bytes));
  const std::size_t offset = take(size);
  try {
    base::reserve(file_, offset, size);
    base::join_pages(span().subspan(offset, size));
  } catch (...) {
    give_back(offset, size);
    throw;
  }
  return {mapping_->data() + offset, GiveBack{shared_from_this(), size}};
}

}  // namespace tutti::shm
