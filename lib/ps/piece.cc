#include "ps/piece.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::ps {

Piece::Piece(const PieceName& name, const Rules& rules)
    : rules_(rules), value_(name, rules), queues_(static_cast<std::size_t>(rules.workers)) {}

void Piece::add(int worker, const Contribution& said) {
  const bool brings = brings_data(said, worker);
  const std::size_t wanted = brings ? value_.count_in(said.shape) * size_of(said.dtype) : 0;
  if (said.data.size() != wanted || said.root < 0 || said.root >= rules_.workers) {
    throw Error(ErrorCode::internal, fmt::format("a {} of {} bytes, where there should be {}",
                                                 name(said.kind), said.data.size(), wanted));
  }
  Request request{said, {said.data.begin(), said.data.end()}};
  std::get<Contribution>(request.said).data = request.data;
  queues_[static_cast<std::size_t>(worker)].push_back(std::move(request));
}

void Piece::add(int worker, const Pull& pull) {
  queues_[static_cast<std::size_t>(worker)].push_back({pull, {}});
}

void Piece::advance() {
  for (bool moved = true; moved;) {
    moved = false;
    for (int worker = 0; worker < rules_.workers; ++worker) {
      while (advance_alone(worker)) moved = true;
    }
    moved = advance_round() || fail_for_absent() || moved;
  }
}

/// An asynchronous pushpull of a key without a value only reduces, and for that it needs all.
bool Piece::is_collective(const Contribution& said) const {
  if (!rules_.asynchronous) return true;
  if (said.kind == Kind::pushpull) return !value_.is_stored();
  return said.kind != Kind::push;
}

void Piece::answer(int worker, const Value::Result& result) {
  Queue& queue = queues_[static_cast<std::size_t>(worker)];
  const Request& request = queue.front();
  const auto* const said = std::get_if<Contribution>(&request.said);
  Answer answer;
  answer.sequence = said != nullptr ? said->sequence : std::get<Pull>(request.said).sequence;
  answer.failure = result.failure;
  if (!result.failure && (said == nullptr || wants_data(*said, worker))) {
    answer.data = {result.elements.as<const std::byte>(), result.elements.bytes()};
  }
  rules_.send(worker, answer);
  queue.pop_front();
}

bool Piece::advance_alone(int worker) {
  const Queue& queue = queues_[static_cast<std::size_t>(worker)];
  if (queue.empty()) return false;
  if (const auto* const pull = std::get_if<Pull>(&queue.front().said)) {
    answer(worker, value_.read(*pull));
    return true;
  }
  const auto& said = std::get<Contribution>(queue.front().said);
  if (is_collective(said)) return false;
  answer(worker, value_.execute_alone(said));
  return true;
}

bool Piece::advance_round() {
  std::vector<const Contribution*> round;
  for (const Queue& queue : queues_) {
    if (queue.empty()) return false;
    round.push_back(&std::get<Contribution>(queue.front().said));
  }
  const Value::Result result = value_.execute(round);
  for (int worker = 0; worker < rules_.workers; ++worker) answer(worker, result);
  return true;
}

/// A round that lacks a worker which brings nothing more never comes about.
bool Piece::fail_for_absent() {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (!rules_.absent[i] || !queues_[i].empty()) continue;
    bool failed = false;
    for (int worker = 0; worker < rules_.workers; ++worker) {
      if (queues_[static_cast<std::size_t>(worker)].empty()) continue;
      answer(worker, {.failure = rules_.absent[i], .elements = {}});
      failed = true;
    }
    return failed;
  }
  return false;
}

}  // namespace tutti::ps
