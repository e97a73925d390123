#include "ps/scheduler/directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tutti/shard.h"

namespace tutti::ps {
namespace {

std::uint64_t bytes_of(const Locate::Value& value) {
  return value.count * size_of(value.dtype);
}

/// A trillion elements of f32. This limits the time that the pieces of broken messages take.
constexpr std::uint64_t most_bytes = std::uint64_t{4} << 40;
/// If a value is split evenly, there is at most one piece more for each server.
static_assert(most_bytes / largest_piece <= most_pieces / 2);

/// The pieces of a value that servers already have. There are no more than the servers say.
struct Found {
  std::uint32_t pieces = 1;
  std::map<std::uint32_t, int> servers;  ///< by index
};

Failure misfit(const PieceName& piece, int server) {
  return {ErrorCode::mismatch,
          fmt::format("the states of the servers do not belong together: server {} has "
                      "piece {} of {} of key {}, which another cut otherwise or has too",
                      server, piece.index, piece.pieces, piece.key.describe()),
          {}};
}

}  // namespace

Directory::Directory(int servers, std::uint64_t big_count)
    : big_count_(big_count), bytes_(static_cast<std::size_t>(servers)) {}

std::string Directory::shortage_for(const Locate::Value& value) const {
  const auto placed = std::accumulate(bytes_.begin(), bytes_.end(), std::uint64_t{0});
  if (value.count <= (most_bytes - placed) / size_of(value.dtype)) return "";
  return fmt::format(
      "key {}: a value of {} elements of {} was to be placed beside {} bytes; "
      "at most {} bytes in all",
      value.key.describe(), value.count, name(value.dtype), placed, most_bytes);
}

int Directory::emptiest() const {
  return static_cast<int>(std::ranges::min_element(bytes_) - bytes_.begin());
}

Places Directory::place(const Locate::Value& value) {
  const bool is_split = value.count >= big_count_ && !value.whole;
  const std::uint32_t servers = is_split ? static_cast<std::uint32_t>(bytes_.size()) : 1;
  std::uint64_t pieces = (bytes_of(value) + largest_piece - 1) / largest_piece;
  pieces = value.whole ? 1 : std::max<std::uint64_t>(pieces, 1);
  Places places{{}, static_cast<std::uint32_t>((pieces + servers - 1) / servers * servers)};
  const int first = emptiest();
  for (std::uint32_t i = 0; i < servers; ++i) {
    places.servers.push_back((first + static_cast<int>(i)) % static_cast<int>(bytes_.size()));
  }
  for (std::uint32_t i = 0; i < places.pieces; ++i) {
    const Shard piece = shard(value.count, static_cast<int>(i), static_cast<int>(places.pieces));
    bytes_[static_cast<std::size_t>(places.server_of(i))] += piece.count() * size_of(value.dtype);
  }
  return places;
}

/// If the pieces go round the servers, as `place` cuts them, one round describes them all.
Places Directory::places_of(const std::map<std::uint32_t, int>& found) const {
  Places places{{}, static_cast<std::uint32_t>(found.size())};
  std::vector<int>& servers = places.servers;
  for (const auto& [index, server] : found) servers.push_back(server);
  for (const std::size_t round : {std::size_t{1}, bytes_.size()}) {
    if (round >= servers.size()) break;
    const auto second = servers.begin() + static_cast<std::ptrdiff_t>(round);
    if (!std::equal(second, servers.end(), servers.begin())) continue;
    servers.resize(round);
    break;
  }
  return places;
}

std::optional<Failure> Directory::adopt(const std::vector<HeldBy>& pieces) {
  std::map<Key, Found> all_found;
  for (const auto& [held, server] : pieces) {
    const PieceName& piece = held.piece;
    Found& found = all_found.try_emplace(piece.key, Found{piece.pieces, {}}).first->second;
    const bool fits = found.pieces == piece.pieces && !found.servers.contains(piece.index);
    if (!fits) return misfit(piece, server);
    const std::string shortage = shortage_for({piece.key, held.count, held.dtype});
    if (!shortage.empty()) return Failure{ErrorCode::mismatch, shortage, {}};
    found.servers.emplace(piece.index, server);
    bytes_[static_cast<std::size_t>(server)] += held.count * size_of(held.dtype);
  }
  for (const auto& [key, found] : all_found) {
    if (found.servers.size() < found.pieces) {
      dropped_.push_back(key);
      continue;
    }
    placed_[key] = places_of(found.servers);
  }
  for (const auto& [held, server] : pieces) {
    if (placed_.contains(held.piece.key)) continue;
    bytes_[static_cast<std::size_t>(server)] -= held.count * size_of(held.dtype);
  }
  return std::nullopt;
}

Located Directory::locate(const Locate& asked) {
  std::vector<const Locate::Value*> largest_first;
  std::set<Key> keys;
  for (const Locate::Value& value : asked.values) {
    if (!keys.insert(value.key).second) {
      throw Error(ErrorCode::internal,
                  fmt::format("one request asks for key {} twice", value.key.describe()));
    }
    largest_first.push_back(&value);
  }
  std::ranges::stable_sort(largest_first, std::greater(),
                           [](const Locate::Value* value) { return bytes_of(*value); });
  for (const Locate::Value* value : largest_first) {
    if (placed_.contains(value->key)) continue;
    if (placed_.size() >= most_keys) {
      throw Error(ErrorCode::internal,
                  fmt::format("the job has {} keys, and may have no more", placed_.size()));
    }
    const std::string shortage = shortage_for(*value);
    if (!shortage.empty()) throw Error(ErrorCode::internal, shortage);
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
  for (const auto& [key, places] : placed_) located.placements.push_back({key, places});
  return located;
}

}  // namespace tutti::ps
