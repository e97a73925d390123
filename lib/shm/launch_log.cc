#include "shm/launch_log.h"

#include <fmt/format.h>

#include "base/failure.h"
#include "tutti/error.h"

namespace tutti::shm {
namespace {

/// A word holds the launch's number, its chunk, and its kind in the lowest bit. Launches are
/// numbered from 1, so that no entry is all zeros before the numbers begin again. At a million
/// chunks a second the numbers of chunks last for a hundred days. They may begin again, because no
/// rank is ever as far behind as that.
constexpr unsigned number_bits = 20;
constexpr unsigned chunk_bits = 43;
constexpr std::uint64_t numbers = std::uint64_t{1} << number_bits;
constexpr std::uint64_t chunks = std::uint64_t{1} << chunk_bits;

std::uint64_t number_in(std::uint64_t word) {
  return word >> (chunk_bits + 1);
}

}  // namespace

LaunchLog::LaunchLog(std::span<Word> ring, bool first) : ring_(ring), first_(first) {
  base::check(!ring.empty() && ring.size() < numbers, "a launch log's ring has few words");
}

void LaunchLog::append(Launch launch) {
  base::check(first_, "the node's first rank alone appends launches");
  base::check(launch.chunk < chunks, "the launch log has room for the chunk's number");
  const std::uint64_t before = word().load(std::memory_order_relaxed);
  if (!is_older(before)) refuse(before);
  const std::uint64_t number = (made_ + 1) % numbers;
  word().store((number << chunk_bits | launch.chunk) << 1 | static_cast<unsigned>(launch.kind),
               std::memory_order_release);
  ++made_;
}

std::optional<LaunchLog::Launch> LaunchLog::next() const {
  base::check(!first_, "the node's first rank follows nobody's launches");
  const std::uint64_t found = word().load(std::memory_order_acquire);
  if (is_older(found)) return std::nullopt;
  if (number_in(found) != (made_ + 1) % numbers) refuse(found);
  return Launch{found >> 1 & (chunks - 1), static_cast<Kind>(found & 1)};
}

void LaunchLog::advance() {
  base::check(!first_ && next(), "a rank makes the launches that the node's first rank has made");
  ++made_;
}

bool LaunchLog::is_older(std::uint64_t word) const {
  if (made_ < ring_.size()) return word == 0;
  return number_in(word) == (made_ + 1 - ring_.size()) % numbers;
}

void LaunchLog::refuse(std::uint64_t word) const {
  throw Error(
      ErrorCode::internal,
      fmt::format("the launch log of this node's ranks holds launch {} where this rank, {}, comes "
                  "to launch {}: the node's first rank is more than {} launches ahead, or another "
                  "store writes there; report this as a fault of tutti",
                  number_in(word), first_ ? "the node's first" : "not the node's first", made_ + 1,
                  ring_.size()));
}

}  // namespace tutti::shm
