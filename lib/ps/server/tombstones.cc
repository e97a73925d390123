#include "ps/server/tombstones.h"

#include <algorithm>
#include <utility>

namespace tutti::ps {

void Tombstones::add(const Failure& failure, std::set<int> absent) {
  if (!absent.empty()) stones_.push_back({failure, std::move(absent)});
}

const Failure* Tombstones::first(int worker) const {
  const auto it = std::ranges::find_if(
      stones_, [&](const Tombstone& stone) { return stone.absent.contains(worker); });
  return it == stones_.end() ? nullptr : &it->failure;
}

void Tombstones::take(int worker) {
  const auto it = std::ranges::find_if(
      stones_, [&](Tombstone& stone) { return stone.absent.erase(worker) > 0; });
  if (it != stones_.end() && it->absent.empty()) stones_.erase(it);
}

void Tombstones::forget(int worker) {
  std::erase_if(stones_, [&](Tombstone& stone) {
    stone.absent.erase(worker);
    return stone.absent.empty();
  });
}

void Tombstones::save(ArchiveWriter& to) const {
  to.put(std::uint64_t{stones_.size()});
  for (const Tombstone& stone : stones_) {
    to.put(std::optional(stone.failure));
    to.put(std::uint64_t{stone.absent.size()});
    for (const int worker : stone.absent) to.put(static_cast<std::uint64_t>(worker));
  }
}

void Tombstones::load(ArchiveReader& from) {
  for (std::uint64_t left = from.number(); left > 0; --left) {
    const std::optional<Failure> failure = from.failure();
    std::set<int> absent;
    for (std::uint64_t more = from.number(); more > 0; --more) {
      absent.insert(static_cast<int>(from.number(INT32_MAX)));
    }
    add(failure.value_or(Failure{}), std::move(absent));
  }
}

}  // namespace tutti::ps
