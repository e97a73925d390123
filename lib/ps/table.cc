#include "ps/table.h"

#include <fmt/format.h>

namespace tutti::ps {

Table::Table(Rules rules)
    : rules_(std::move(rules)),
      received_(static_cast<std::size_t>(rules_.workers)),
      settings_(rules_, [this] {
        for (const auto& [key, place] : places_) {
          for (const auto& [index, piece] : place.held) piece->take_optimizer();
        }
      }) {
  rules_.absent.resize(received_.size());
}

void Table::receive(int worker, const ToServer& request) {
  std::visit([&](const auto& one) { on(worker, one); }, request);
}

bool Table::is_new(int worker, std::uint64_t sequence) {
  std::uint64_t& last = received_.at(static_cast<std::size_t>(worker));
  if (sequence <= last) return false;
  if (sequence != last + 1) {
    throw Error(ErrorCode::internal, fmt::format("request {} came after request {}: one between "
                                                 "them is missing",
                                                 sequence, last));
  }
  last = sequence;
  return true;
}

Piece& Table::find(const PieceName& name) {
  Place& place =
      places_.try_emplace(name.key, Place{.pieces = name.pieces, .held = {}}).first->second;
  if (place.pieces != name.pieces) {
    throw Error(ErrorCode::internal, fmt::format("key {} is in {} pieces, and this request says {}",
                                                 name.key.describe(), place.pieces, name.pieces));
  }
  std::unique_ptr<Piece>& piece = place.held[name.index];
  if (!piece) piece = std::make_unique<Piece>(name, rules_);
  return *piece;
}

void Table::on(int worker, const Contribution& said) {
  if (!is_new(worker, said.sequence)) return;
  Piece& piece = find(said.piece);
  piece.add(worker, said);
  piece.advance();
}

void Table::on(int worker, const Pull& pull) {
  if (!is_new(worker, pull.sequence)) return;
  Piece& piece = find(pull.piece);
  piece.add(worker, pull);
  piece.advance();
}

void Table::on(int worker, const SetOptimizer& set) {
  if (!is_new(worker, set.sequence)) return;
  settings_.add(worker, set);
  settings_.advance();
}

void Table::on(int worker, const Goodbye&) {
  lose(worker, {ErrorCode::aborted, fmt::format("worker {} has left the store", worker), {worker}});
}

void Table::lose(int worker, const Failure& failure) {
  auto& absent = rules_.absent.at(static_cast<std::size_t>(worker));
  if (absent) return;
  absent = failure;
  advance_all();
}

void Table::advance_all() {
  for (const auto& [key, place] : places_) {
    for (const auto& [index, piece] : place.held) piece->advance();
  }
  settings_.advance();
}

}  // namespace tutti::ps
