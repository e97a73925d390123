#include "ps/server/stock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/own_tensor.h"
#include "base/printable.h"
#include "optimizer/catalogue.h"
#include "optimizer/updater.h"
#include "ps/durable/state_folder.h"
#include "ps/protocol/states.h"
#include "ps/server/image.h"
#include "tutti/shard.h"

namespace tutti::ps {
namespace {

[[noreturn]] void refuse_stock(const std::string& folder, const std::string& why) {
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

/// The job whose beginning was interrupted when all servers had prepared their states. For some
/// server the state of that job is the only one that is left, while another server has only
/// prepared it.
std::optional<std::uint64_t> interrupted_job(const std::vector<StateFiles>& all) {
  std::set<std::uint64_t> prepared;
  for (const StateFiles& files : all) {
    if (files.has_prepared()) prepared.insert(Image::read_prepared(files).head.job);
  }
  if (prepared.size() != 1) return std::nullopt;
  const bool all_have_theirs = std::ranges::all_of(all, [&](const StateFiles& files) {
    return files.has_prepared() ||
           (files.has_state() && Image::read(files).head.job == *prepared.begin());
  });
  return all_have_theirs ? std::optional(*prepared.begin()) : std::nullopt;
}

Image image_of(const StateFiles& files, const std::optional<std::uint64_t>& interrupted) {
  return interrupted && files.has_prepared() ? Image::read_prepared(files) : Image::read(files);
}

}  // namespace

void warn_incomplete(const Key& key) {
  base::log().warn(
      "key {} is not restored: the servers' states have only some of its pieces, because the "
      "earlier job ended in the middle of its init; no worker was told that this init was done; "
      "initialise the key again",
      key.describe());
}

Stock Stock::read(const std::string& folder) {
  const std::shared_ptr<base::Disk> disk = state_folder(folder);
  const std::set<int> counts = server_counts(*disk);
  if (counts.size() != 1) {
    refuse_stock(folder, counts.empty() ? "there is none"
                                        : fmt::format("it has those of {} servers; leave one job's",
                                                      fmt::join(counts, " and of ")));
  }
  const int servers = *counts.begin();
  Stock stock;
  Found found;
  std::vector<StateFiles> all;
  all.reserve(static_cast<std::size_t>(servers));
  for (int rank = 0; rank < servers; ++rank) all.emplace_back(disk, rank, servers);
  const std::optional<std::uint64_t> interrupted = interrupted_job(all);
  std::optional<std::uint64_t> job;
  for (const StateFiles& files : all) {
    if (!files.has_state() && !interrupted) {
      refuse_stock(folder,
                   fmt::format("that of server {} of {} is missing; bring all of them there",
                               files.rank(), servers));
    }
    const Image image = image_of(files, interrupted);
    if (job && *job != image.head.job) {
      refuse_stock(folder,
                   fmt::format("server {}'s is of another job than server 0's", files.rank()));
    }
    job = image.head.job;
    if (image.table->optimizer()) stock.optimizer_ = image.table->optimizer();
    if (const auto moment = image.moment()) stock.moments_.push_back(*moment);
    add(*image.table, found);
  }
  stock.join(std::move(found));
  return stock;
}

void Stock::add(const Table& table, Found& found) {
  const std::string rule = table.optimizer() ? table.optimizer()->name : "";
  for (Table::PieceContent& one : table.contents()) {
    const Value::Content& content = one.content;
    InPieces& value = found.try_emplace(one.name.key, InPieces{one.name.pieces}).first->second;
    const Value::Content& first =
        value.parts.empty() ? content : value.parts.begin()->second.content;
    const bool fits =
        content.shape == first.shape && content.elements.dtype() == first.elements.dtype() &&
        one.name.pieces == value.pieces &&
        value.parts.try_emplace(one.name.index, Part{std::move(one.content), rule}).second;
    if (fits) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the pieces of key {} do not fit together, because the servers' "
                            "states are of different moments",
                            one.name.key.describe()));
  }
}

void Stock::join(Found found) {
  while (!found.empty()) {
    const auto value = found.extract(found.begin());
    if (value.mapped().parts.size() < value.mapped().pieces) {
      warn_incomplete(value.key());
    } else {
      values_.emplace(value.key(), joined(value.mapped()));
    }
  }
}

Stock::Whole Stock::joined(const InPieces& value) const {
  const Value::Content& first = value.parts.begin()->second.content;
  Whole whole{.shape = first.shape,
              .elements = base::own_tensor(first.shape, first.elements.dtype()),
              .state = joined_state(value)};
  std::byte* to = whole.elements.as<std::byte>();
  for (const auto& [index, part] : value.parts) {
    const Tensor& elements = part.content.elements;
    if (elements.bytes() > 0) std::memcpy(to, elements.data(), elements.bytes());
    to += elements.bytes();
  }
  return whole;
}

/// If a job ended while a key was updated for the first time, or while the optimizer was set, only
/// some pieces of the key have states. The other pieces begin with the optimizer's initial state.
std::optional<optimizer::State> Stock::joined_state(const InPieces& value) const {
  const auto has_state = [this](const Part& part) {
    return part.content.state && part.rule == optimizer_->name;
  };
  const auto with_state =
      std::ranges::find_if(value.parts, [&](const auto& one) { return has_state(one.second); });
  if (with_state == value.parts.end()) return std::nullopt;
  const optimizer::Updater updater(*optimizer_);
  std::map<std::uint32_t, optimizer::State> states;
  for (const auto& [index, part] : value.parts) {
    states.emplace(index, completed(has_state(part) ? *part.content.state : optimizer::State{},
                                    updater.initial_state(part.content.elements)));
  }
  return whole_of(states);
}

Locate Stock::question() const {
  Locate question;
  const bool is_whole = optimizer_ && optimizer::choose(*optimizer_).rule->needs_whole();
  for (const auto& [key, whole] : values_) {
    question.values.push_back({key, whole.elements.count(), whole.elements.dtype(), is_whole});
  }
  return question;
}

void Stock::check_answer(const Located& located) const {
  if (located.placements.size() != values_.size()) {
    throw Error(
        ErrorCode::internal,
        fmt::format("the scheduler was asked for the places of {} values, key {} among "
                    "them, and answers with {}",
                    values_.size(), values_.empty() ? "none" : values_.begin()->first.describe(),
                    located.placements.size()));
  }
  auto placed = located.placements.begin();
  for (const auto& [key, whole] : values_) {
    const auto& [answered, places] = *placed++;
    const std::size_t count = whole.elements.count();
    if (answered == key && places.pieces <= count + places.servers.size()) continue;
    throw Error(ErrorCode::internal,
                fmt::format("the scheduler was asked for the place of key {} with {} elements, and "
                            "answers with key {} in {} pieces; do all servers restore the same "
                            "state?",
                            key.describe(), count, answered.describe(), places.pieces));
  }
}

std::vector<Table::PieceContent> Stock::pieces_on(int server, const Located& located) const {
  check_answer(located);
  std::vector<Table::PieceContent> mine;
  for (const auto& [key, places] : located.placements) {
    const Whole& whole = values_.at(key);
    const std::uint32_t pieces = places.pieces;
    for (std::uint32_t piece = 0; piece < pieces; ++piece) {
      if (places.server_of(piece) != server) continue;
      const Shard part =
          shard(whole.shape.count(), static_cast<int>(piece), static_cast<int>(pieces));
      Value::Content content{whole.shape, part_of(whole.elements, part), {}};
      if (whole.state) content.state = ps::part_of(*whole.state, piece, pieces);
      mine.push_back({{key, piece, pieces}, std::move(content)});
    }
  }
  return mine;
}

}  // namespace tutti::ps
