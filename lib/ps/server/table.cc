#include "ps/server/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "optimizer/catalogue.h"
#include "ps/protocol/states.h"

namespace tutti::ps {

Table::Table(Rules rules)
    : rules_(std::move(rules)),
      received_(static_cast<std::size_t>(rules_.workers)),
      answered_(received_.size()),
      waiting_{.bytes = std::vector<std::uint64_t>(received_.size())},
      settings_(
          rules_,
          [this](const Setting& setting) {
            return std::visit([this](const auto& one) { return apply(one); }, setting);
          },
          [this] { return waiting_.held > 0; }) {
  rules_.absent.resize(received_.size());
  rules_.send = [this, send = std::move(rules_.send)](int worker, const Answer& answer) {
    if (answer.sequence != 0) ++answered_[static_cast<std::size_t>(worker)];
    send(worker, answer);
  };
}

void Table::receive(int worker, const ToServer& request) {
  if (!hears(worker)) return;
  try {
    std::visit([&](const auto& one) { on(worker, one); }, request);
  } catch (const Error& error) {
    refuse(worker, error.what());
  }
}

/// Whether messages of this worker count. Those of a lost worker must not count after the others
/// have learnt of the loss, because they would stand for a later round.
bool Table::hears(int worker) const {
  return !rules_.is_lost(static_cast<std::size_t>(worker));
}

/// Refuses the worker. Its next messages would be taken for something else.
void Table::refuse(int worker, const std::string& why) {
  const Failure failure{
      ErrorCode::internal,
      fmt::format("the server reads no more of worker {}, because it sent an invalid request: {}",
                  worker, why),
      {worker}};
  rules_.send(worker, {0, failure, {}});
  rules_.absent.at(static_cast<std::size_t>(worker)).reset();
  lose(worker, failure);
}

bool Table::is_new(int worker, std::uint64_t sequence) {
  const auto at = static_cast<std::size_t>(worker);
  std::uint64_t& last = received_.at(at);
  if (sequence <= last) return false;
  if (sequence != last + 1) {
    throw Error(ErrorCode::internal, fmt::format("request {} came after request {}: one between "
                                                 "them is missing",
                                                 sequence, last));
  }
  if (last - answered_[at] >= most_waiting_requests) {
    throw Error(ErrorCode::internal,
                fmt::format("{} of its requests wait here for other workers, but at most {} may",
                            last - answered_[at], most_waiting_requests));
  }
  last = sequence;
  return true;
}

Piece& Table::find(const PieceName& name) {
  if (places_.size() >= most_keys && !places_.contains(name.key)) {
    throw Error(ErrorCode::internal,
                fmt::format("the server has {} keys, and may have no more", places_.size()));
  }
  HeldPieces& place =
      places_.try_emplace(name.key, HeldPieces{.pieces = name.pieces, .held = {}}).first->second;
  if (place.pieces != name.pieces) {
    throw Error(ErrorCode::internal, fmt::format("key {} is in {} pieces, and this request says {}",
                                                 name.key.describe(), place.pieces, name.pieces));
  }
  std::unique_ptr<Piece>& piece = place.held[name.index];
  if (!piece) piece = std::make_unique<Piece>(name, rules_, waiting_);
  return *piece;
}

template <typename Work>
void Table::for_pieces(const Work& work) {
  for (const auto& [key, place] : places_) {
    for (const auto& [index, piece] : place.held) work(*piece);
  }
}

bool Table::waits_for(int worker) const {
  if (settings_.waits_for(worker)) return true;
  return std::ranges::any_of(places_, [&](const auto& place) {
    return std::ranges::any_of(place.second.held,
                               [&](const auto& held) { return held.second->waits_for(worker); });
  });
}

template <typename Request>
void Table::add_to_piece(int worker, const Request& request) {
  if (!is_new(worker, request.sequence)) return;
  Piece& piece = find(request.piece);
  piece.add(worker, request);
  const bool held_any = waiting_.held > 0;
  piece.advance();
  // The message has made a held round fail.
  if (held_any && waiting_.held == 0) settings_.advance();
}

void Table::on(int worker, const Contribution& said) {
  add_to_piece(worker, said);
}

void Table::on(int worker, const Pull& pull) {
  add_to_piece(worker, pull);
}

void Table::on(int worker, const PullState& pull) {
  add_to_piece(worker, pull);
}

void Table::on(int worker, const Withdrawal& said) {
  add_to_piece(worker, said);
}

void Table::on(int worker, const PullOptimizer& pull) {
  if (!is_new(worker, pull.sequence)) return;
  if (!rules_.optimizer) return rules_.send(worker, {pull.sequence, no_optimizer(), {}});
  const std::vector<std::byte> bytes =
      packed({.rule = rules_.optimizer->name, .optimizer = rules_.optimizer});
  rules_.send(worker, {pull.sequence, std::nullopt, bytes});
}

void Table::on(int worker, const SetState& set) {
  if (!is_new(worker, set.sequence)) return;
  auto states = unpacked(set.data).states;
  if (worker != 0 || states.size() != 1 || !states.contains(set.piece.key)) {
    throw Error(ErrorCode::internal,
                fmt::format("a state of key {} is malformed, or does not come from worker 0",
                            set.piece.key.describe()));
  }
  static_cast<void>(find(set.piece));
  brought_.insert_or_assign(set.sequence,
                            BroughtState{set.piece, std::move(states.begin()->second)});
  rules_.send(worker, {set.sequence, std::nullopt, {}});
}

void Table::add_setting(int worker, const Setting& setting) {
  settings_.add(worker, setting);
  settings_.advance();
}

void Table::on(int worker, const SetOptimizer& set) {
  if (is_new(worker, set.sequence)) add_setting(worker, set);
}

void Table::on(int worker, const SetCompression& set) {
  if (is_new(worker, set.sequence)) add_setting(worker, set);
}

void Table::on(int worker, const LoadStates& load) {
  if (is_new(worker, load.sequence)) add_setting(worker, load);
}

void Table::on(int worker, const FindMissing& asked) {
  if (!is_new(worker, asked.sequence)) return;
  std::optional<Failure> missing;
  if (!asked.piece) {
    missing = settings_.missing_for(worker);
  } else if (const Piece* const piece = find_held(*asked.piece)) {
    missing = piece->missing_for(worker);
  }
  rules_.send(worker, {asked.sequence, std::move(missing), {}});
}

void Table::on(int worker, const Recall& said) {
  if (!is_new(worker, said.sequence)) return;
  std::optional<Failure> missing;
  if (!said.piece) {
    missing = settings_.recall(worker, said);
  } else if (Piece* const piece = find_held(*said.piece)) {
    missing = piece->recall(worker, said);
    piece->advance();
  }
  settings_.advance();
  rules_.send(worker, {said.sequence, std::move(missing), {}});
}

/// Finds the piece. A question makes no piece, whatever it names.
Piece* Table::find_held(const PieceName& name) const {
  const auto place = places_.find(name.key);
  if (place == places_.end()) return nullptr;
  const auto held = place->second.held.find(name.index);
  return held == place->second.held.end() ? nullptr : held->second.get();
}

std::optional<Failure> Table::apply(const SetOptimizer& set) {
  try {
    static_cast<void>(optimizer::choose(set.optimizer));
  } catch (const Error& error) {
    return Failure{error.code(), error.what(), {}};
  }
  rules_.optimizer = set.optimizer;
  for_pieces([](Piece& piece) { piece.take_optimizer(); });
  return std::nullopt;
}

/// Nothing is to be done once all workers agree, because each contribution says how it is
/// compressed.
std::optional<Failure> Table::apply(const SetCompression&) {
  return std::nullopt;
}

/// The states that came right before this request. Earlier states belong to a load that failed.
std::vector<Table::BroughtState> Table::take_brought(std::uint64_t before) {
  std::vector<BroughtState> brought;
  for (auto it = brought_.find(before - 1); it != brought_.end();
       it = brought_.find(--before - 1)) {
    brought.push_back(std::move(it->second));
  }
  brought_.erase(brought_.begin(), brought_.lower_bound(before + brought.size()));
  return brought;
}

std::optional<Failure> Table::apply(const LoadStates& load) {
  std::vector<BroughtState> brought = take_brought(load.sequence);
  if (load.failure) return load.failure;
  try {
    optimizer::check_fits({.rule = load.rule, .optimizer = load.optimizer},
                          rules_.optimizer ? &*rules_.optimizer : nullptr);
  } catch (const Error& error) {
    return Failure{error.code(), error.what(), {}};
  }
  if (load.optimizer) {
    if (auto failure = apply(SetOptimizer{0, *load.optimizer})) return failure;
  }
  for_pieces([](Piece& piece) { piece.set_state(std::nullopt); });
  for (BroughtState& one : brought) find(one.piece).set_state(std::move(one.state));
  return std::nullopt;
}

void Table::on(int worker, const Goodbye&) {
  lose(worker, {ErrorCode::aborted, fmt::format("worker {} has left the store", worker), {worker}});
}

void Table::lose(int worker, const Failure& failure) {
  auto& absent = rules_.absent.at(static_cast<std::size_t>(worker));
  if (absent) return;
  absent = failure;
  if (worker == 0) brought_.clear();
  for_pieces([](Piece& piece) { piece.advance(); });
  settings_.advance();
}

}  // namespace tutti::ps
