#include "ps/directory.h"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/shard.h"

namespace tutti::ps {
namespace {

std::uint64_t bytes_of(const Locate::Value& value) {
  return value.count * size_of(value.dtype);
}

/// More than any machine has; it bounds what a broken message can make of the lists here.
constexpr std::uint64_t largest_value = std::uint64_t{8} << 40;

void check_size(const Locate::Value& value) {
  if (value.count <= largest_value / size_of(value.dtype)) return;
  throw Error(ErrorCode::internal, fmt::format("a value of {} elements was to be placed; at most "
                                               "{} bytes",
                                               value.count, largest_value));
}

}  // namespace

Directory::Directory(int servers, std::uint64_t big_count)
    : big_count_(big_count), bytes_(static_cast<std::size_t>(servers)) {}

int Directory::emptiest() const {
  return static_cast<int>(std::ranges::min_element(bytes_) - bytes_.begin());
}

std::vector<int> Directory::place(const Locate::Value& value) {
  const std::uint64_t all = bytes_.size();
  const bool is_split = value.count >= big_count_ && !value.whole;
  std::uint64_t pieces = (bytes_of(value) + largest_piece - 1) / largest_piece;
  pieces = value.whole ? 1 : std::max<std::uint64_t>(pieces, 1);
  if (is_split) pieces = (pieces + all - 1) / all * all;
  std::vector<int> servers;
  const auto first = static_cast<std::uint64_t>(emptiest());
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const std::uint64_t server = is_split ? (first + i) % all : first;
    const Shard piece = shard(value.count, static_cast<int>(i), static_cast<int>(pieces));
    bytes_[server] += piece.count() * size_of(value.dtype);
    servers.push_back(static_cast<int>(server));
  }
  return servers;
}

std::optional<Failure> Directory::adopt(const std::vector<HeldBy>& pieces) {
  constexpr int nobody = -1;
  for (const auto& [held, server] : pieces) {
    std::vector<int>& servers = placed_[held.piece.key];
    if (servers.empty() && held.piece.pieces <= most_pieces) {
      servers.assign(held.piece.pieces, nobody);
    }
    const bool fits = servers.size() == held.piece.pieces;
    if (!fits || servers[held.piece.index] != nobody) {
      return Failure{
          ErrorCode::mismatch,
          fmt::format("the states of the servers do not belong together: server {} has "
                      "piece {} of {} of key {}, which another cut otherwise or has too",
                      server, held.piece.index, held.piece.pieces, held.piece.key.describe()),
          {}};
    }
    servers[held.piece.index] = server;
    bytes_[static_cast<std::size_t>(server)] += held.count * size_of(held.dtype);
  }
  for (const auto& [key, servers] : placed_) {
    const auto missing = std::ranges::find(servers, nobody);
    if (missing == servers.end()) continue;
    return Failure{ErrorCode::mismatch,
                   fmt::format("no server has piece {} of {} of key {} in its state; start all "
                               "servers with the states that they kept together",
                               missing - servers.begin(), servers.size(), key.describe()),
                   {}};
  }
  return std::nullopt;
}

Located Directory::locate(const Locate& asked) {
  std::vector<const Locate::Value*> largest_first;
  for (const Locate::Value& value : asked.values) {
    check_size(value);
    largest_first.push_back(&value);
  }
  std::ranges::stable_sort(largest_first, std::greater(),
                           [](const Locate::Value* value) { return bytes_of(*value); });
  for (const Locate::Value* value : largest_first) {
    if (placed_.contains(value->key)) continue;
    if (placed_.size() >= most_keys) {
      throw Error(ErrorCode::internal,
                  fmt::format("the job has {} keys, and no more may be made", placed_.size()));
    }
    placed_.emplace(value->key, place(*value));
  }
  Located located;
  for (const Locate::Value& value : asked.values) {
    located.placements.push_back({value.key, placed_.at(value.key)});
  }
  return located;
}

Located Directory::all() const {
  Located located{{}, true};
  for (const auto& [key, servers] : placed_) located.placements.push_back({key, servers});
  return located;
}

}  // namespace tutti::ps
