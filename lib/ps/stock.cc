#include "ps/stock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/own_tensor.h"
#include "base/printable.h"
#include "optimizer/catalogue.h"
#include "ps/image.h"
#include "ps/states.h"
#include "tutti/shard.h"

namespace tutti::ps {
namespace {

[[noreturn]] void refuse(const std::string& folder, const std::string& why) {
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("the state in {} (--restore) cannot be used: {}", base::quoted(folder), why));
}

Tensor part_of(const Tensor& whole, const Shard& part) {
  const std::size_t element = size_of(whole.dtype());
  Tensor tensor = base::own_tensor({static_cast<std::int64_t>(part.count())}, whole.dtype());
  if (part.count() > 0) {
    std::memcpy(tensor.data(), whole.as<std::byte>() + part.begin * element,
                part.count() * element);
  }
  return tensor;
}

}  // namespace

void warn_incomplete(const Key& key) {
  base::log().warn(
      "key {} is not restored: the servers' states have some of its pieces alone, for the earlier "
      "job ended inside its init, of which no worker was told that it was done; initialise it "
      "again",
      key.describe());
}

Stock Stock::read(const std::string& folder) {
  const std::set<int> counts = server_counts(folder);
  if (counts.size() != 1) {
    refuse(folder, counts.empty() ? "there is none"
                                  : fmt::format("it has those of {} servers; leave one job's",
                                                fmt::join(counts, " and of ")));
  }
  const int servers = *counts.begin();
  Stock stock;
  std::optional<std::uint64_t> job;
  for (int rank = 0; rank < servers; ++rank) {
    const StateFiles files(folder, rank, servers);
    if (!files.has_state()) {
      refuse(folder, fmt::format("that of server {} of {} is missing; bring all of them there",
                                 rank, servers));
    }
    const Image image = Image::read(files);
    if (job && *job != image.head.job) {
      refuse(folder, fmt::format("server {}'s is of another job than server 0's", rank));
    }
    job = image.head.job;
    if (image.table->optimizer()) stock.optimizer_ = image.table->optimizer();
    for (const Table::Content& one : image.table->contents()) stock.add(one);
  }
  stock.drop_incomplete();
  stock.drop_partial_states();
  return stock;
}

void Stock::add(const Table::Content& one) {
  const Value::Content& content = one.content;
  const DType dtype = content.elements.dtype();
  auto [it, is_new] = values_.try_emplace(one.name.key);
  Whole& whole = it->second;
  if (is_new) {
    whole = {.shape = content.shape,
             .elements = base::own_tensor(content.shape, dtype),
             .pieces = one.name.pieces};
  }
  const Shard part = shard(whole.shape.count(), static_cast<int>(one.name.index),
                           static_cast<int>(one.name.pieces));
  const bool fits = content.shape == whole.shape && dtype == whole.elements.dtype() &&
                    one.name.pieces == whole.pieces && content.elements.count() == part.count();
  if (!fits) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the pieces of key {} do not fit together: the servers' states are of "
                            "different moments",
                            one.name.key.describe()));
  }
  if (part.count() > 0) {
    std::memcpy(whole.elements.as<std::byte>() + part.begin * size_of(dtype),
                content.elements.data(), content.elements.bytes());
  }
  ++whole.found;
  if (content.state) whole.states.emplace(one.name.index, *content.state);
}

void Stock::drop_incomplete() {
  std::erase_if(values_, [](const auto& value) {
    const auto& [key, whole] = value;
    if (whole.found == whole.pieces) return false;
    warn_incomplete(key);
    return true;
  });
}

/// A job that ended while a key was updated for the first time has states of some of its pieces.
void Stock::drop_partial_states() {
  for (auto& [key, whole] : values_) {
    if (whole.states.empty() || whole.states.size() == whole.pieces) continue;
    base::log().warn("the optimizer begins anew for key {}: of {} pieces {} have a state",
                     key.describe(), whole.pieces, whole.states.size());
    whole.states.clear();
  }
}

Locate Stock::question() const {
  Locate question;
  const bool is_whole = optimizer_ && optimizer::choose(*optimizer_).rule->needs_whole();
  for (const auto& [key, whole] : values_) {
    question.values.push_back({key, whole.elements.count(), whole.elements.dtype(), is_whole});
  }
  return question;
}

std::vector<Table::Content> Stock::pieces_on(int server, const Located& located) const {
  std::vector<Table::Content> mine;
  for (const Placement& placement : located.placements) {
    const Whole& whole = values_.at(placement.key);
    const auto pieces = static_cast<std::uint32_t>(placement.servers.size());
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
      if (placement.servers[piece] != server) continue;
      const Shard part =
          shard(whole.shape.count(), static_cast<int>(piece), static_cast<int>(pieces));
      Value::Content content{whole.shape, part_of(whole.elements, part), {}};
      if (!whole.states.empty()) {
        content.state = ps::part_of(whole_of(whole.states), piece, pieces);
      }
      mine.push_back({{placement.key, piece, pieces}, std::move(content)});
    }
  }
  return mine;
}

}  // namespace tutti::ps
