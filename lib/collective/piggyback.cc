#include "collective/piggyback.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/cache_line.h"
#include "base/failure.h"
#include "mpi/communicator.h"

namespace tutti::collective {
namespace {

/// The most blocks in a message. Either the last round that doubles what is known has the most, or
/// the very last round.
std::size_t most_blocks(std::size_t nodes) {
  std::size_t most = 1;
  for (std::size_t distance = 1; distance < nodes; distance *= 2) {
    most = std::max(most, std::min(distance, nodes - distance));
  }
  return most;
}

}  // namespace

Piggyback::Piggyback(std::size_t nodes, std::size_t me) : nodes_(nodes), me_(me) {
  for (std::size_t distance = 1; distance < nodes; distance *= 2) {
    const bool exchange = may_sum(nodes);
    const std::size_t to = exchange ? me ^ distance : (me + distance) % nodes;
    const std::size_t from = exchange ? to : (me + nodes - distance) % nodes;
    rounds_.push_back({to, from, distance, std::min(distance, nodes - distance)});
  }
  blocks_.resize(buffer_bytes(nodes));
}

std::size_t Piggyback::buffer_bytes(std::size_t nodes) {
  return std::max(nodes * most_block(Kind::gathered, nodes), most_block(Kind::passed_on, nodes));
}

bool Piggyback::may_sum(std::size_t nodes) {
  return std::has_single_bit(nodes);
}

std::size_t Piggyback::most_block(Kind kind, std::size_t nodes) {
  if (kind == Kind::none) return 0;
  const std::size_t blocks = kind == Kind::gathered ? most_blocks(nodes) : 1;
  // The largest block is a whole number of cache lines.
  const std::size_t most = (mpi::message_bytes - header_bytes) / blocks;
  return most / base::cache_line * base::cache_line;
}

void Piggyback::load(const Load& load) {
  base::check(load.block.size() <= most_block(load.kind, nodes_), "a gate's block is small");
  base::check(load.kind != Kind::summed || may_sum(nodes_), "a power of two of nodes carries sums");
  kind_ = load.kind;
  block_bytes_ = load.block.size();
  kernel_ = load.kernel;
  root_ = load.root;
  const bool counts = kind_ != Kind::passed_on || root_ == me_;
  if (counts && block_bytes_ > 0) std::memcpy(blocks_.data(), load.block.data(), block_bytes_);
}

std::size_t Piggyback::distance_to(std::size_t node) const {
  return may_sum(nodes_) ? me_ ^ node : (me_ + nodes_ - node) % nodes_;
}

std::span<const std::byte> Piggyback::outgoing(const Round& round) const {
  switch (kind_) {
    case Kind::none:
      break;
    case Kind::gathered:
      return {blocks_.data(), round.blocks * block_bytes_};
    case Kind::summed:
      return {blocks_.data(), block_bytes_};
    case Kind::passed_on:
      if (distance_to(root_) < round.blocks) return {blocks_.data(), block_bytes_};
  }
  return {};
}

void Piggyback::take(const Round& round, const std::byte* message) {
  if (block_bytes_ == 0) return;
  switch (kind_) {
    case Kind::none:
      return;
    case Kind::gathered:
      std::memcpy(place(round.distance), message, round.blocks * block_bytes_);
      return;
    case Kind::summed:
      return add(round, message);
    case Kind::passed_on:
      const std::size_t distance = distance_to(root_);
      if (distance < round.distance || distance >= round.distance + round.blocks) return;
      std::memcpy(blocks_.data(), message, block_bytes_);
  }
}

/// The order of the two operands changes no bit.
void Piggyback::add(const Round& round, const std::byte* message) {
  reduce::Kernel kernel = kernel_;
  if (&round != &rounds_.back()) kernel.divisor = 1;
  const std::array<const void*, 2> sources{blocks_.data(), message};
  reduce::reduce(kernel, sources, blocks_.data(), block_bytes_ / size_of(kernel.in));
}

}  // namespace tutti::collective
