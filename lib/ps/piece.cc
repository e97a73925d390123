#include "ps/piece.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ps/compression.h"
#include "ps/missing.h"

namespace tutti::ps {
namespace {

Failure withdrawn(const Key& key, std::vector<int> workers) {
  return {ErrorCode::timeout,
          fmt::format("key {}: workers {} gave up their call at their time limit, before all of it "
                      "was sent; where the key's other pieces had been sent, they count",
                      key.describe(), fmt::join(workers, ", ")),
          std::move(workers)};
}

/// What it brought would have been an error.
Failure withdrawn(const Key& key, int worker, const Failure& failure) {
  return {failure.code,
          fmt::format("key {}: workers {} could not bring their part: {}", key.describe(), worker,
                      failure.text),
          {worker}};
}

}  // namespace

Piece::Piece(const PieceName& name, const Rules& rules, Waiting& waiting)
    : rules_(rules),
      waiting_(waiting),
      value_(name, rules),
      queues_(static_cast<std::size_t>(rules.workers)),
      pushes_(queues_.size()) {}

void Piece::add(int worker, const Contribution& said) {
  const bool brings = brings_data(said, worker);
  const Encoding encoding = said.compression.encoding;
  const std::size_t wanted =
      brings ? encoded_bytes(encoding, said.dtype, value_.piece_of(said.shape).count()) : 0;
  const bool is_gradient = said.kind == Kind::push || said.kind == Kind::pushpull;
  if (encoding != Encoding::none && (!is_gradient || !can_carry(encoding, said.dtype))) {
    throw Error(ErrorCode::internal, fmt::format("a {} of {} compressed with '{}'", name(said.kind),
                                                 name(said.dtype), name(encoding)));
  }
  if (said.data.size() != wanted || said.root < 0 || said.root >= rules_.workers) {
    throw Error(ErrorCode::internal, fmt::format("a {} of {} bytes, where there should be {}",
                                                 name(said.kind), said.data.size(), wanted));
  }
  Request request{said, {}};
  if (!said.keeper) {
    request.data = {said.data.begin(), said.data.end()};
    std::get<Contribution>(request.said).data = request.data;
  }
  waiting_[static_cast<std::size_t>(worker)] += bytes_here(request);
  queues_[static_cast<std::size_t>(worker)].push_back(std::move(request));
}

void Piece::add(int worker, const Pull& pull) {
  queues_[static_cast<std::size_t>(worker)].push_back({pull, {}});
}

void Piece::add(int worker, const PullState& pull) {
  queues_[static_cast<std::size_t>(worker)].push_back({pull, {}});
}

void Piece::add(int worker, const Withdrawal& said) {
  queues_[static_cast<std::size_t>(worker)].push_back({said, {}});
}

/// Memory that is shared is there in any case.
std::uint64_t Piece::bytes_here(const Request& request) {
  const auto* const said = std::get_if<Contribution>(&request.said);
  return said == nullptr || said->room ? 0 : said->data.size();
}

bool Piece::waits_for(int worker) const {
  return queues_[static_cast<std::size_t>(worker)].empty() &&
         std::ranges::any_of(queues_, [](const Queue& queue) { return !queue.empty(); });
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

/// Of a contribution, also of one that was withdrawn.
std::optional<Kind> Piece::kind_of(const Request& request) {
  if (const auto* const said = std::get_if<Contribution>(&request.said)) return said->kind;
  if (const auto* const said = std::get_if<Withdrawal>(&request.said)) return said->kind;
  return std::nullopt;
}

/// An asynchronous pushpull of a key without a value only reduces, and for that it needs all.
bool Piece::is_collective(Kind kind) const {
  if (!rules_.asynchronous) return true;
  if (kind == Kind::pushpull) return !value_.is_stored();
  return kind != Kind::push;
}

/// Whether the worker's first request waits for those of all others.
bool Piece::is_in_round(std::size_t worker) const {
  const Queue& queue = queues_[worker];
  if (queue.empty()) return false;
  const std::optional<Kind> kind = kind_of(queue.front());
  return kind && is_collective(*kind);
}

/// Whether the worker's first request waits for something of this other one: its part in the round,
/// or, in an asynchronous store with a bound, that it comes nearer. Who waits for a round pushes
/// nothing until the others have come to it.
bool Piece::holds_up(std::size_t other, std::size_t worker) const {
  if (is_in_round(other)) return false;
  if (is_in_round(worker)) return true;
  if (rules_.staleness == unbounded || other == worker || rules_.absent[other]) return false;
  const auto most_ahead = static_cast<std::uint64_t>(rules_.staleness);
  return pushes_[worker] + 1 > pushes_[other] + most_ahead;
}

/// Whether another asynchronous push would put the worker too far before the slowest of those that
/// still push.
bool Piece::is_too_far_ahead(std::size_t worker) const {
  if (rules_.staleness == unbounded) return false;
  for (std::size_t other = 0; other < queues_.size(); ++other) {
    if (holds_up(other, worker)) return true;
  }
  return false;
}

/// What is behind its first request waits for that.
std::optional<Failure> Piece::missing_for(int worker) const {
  const auto at = static_cast<std::size_t>(worker);
  const auto kind = queues_[at].empty() ? std::nullopt : kind_of(queues_[at].front());
  if (!kind) return std::nullopt;
  std::vector<int> missing;
  for (std::size_t other = 0; other < queues_.size(); ++other) {
    if (holds_up(other, at)) missing.push_back(static_cast<int>(other));
  }
  if (missing.empty()) return std::nullopt;
  return not_made(std::move(missing),
                  fmt::format("{} of key {}", name(*kind), value_.key().describe()));
}

void Piece::answer(int worker, const Value::Result& result) {
  Queue& queue = queues_[static_cast<std::size_t>(worker)];
  const Request& request = queue.front();
  const auto* const said = std::get_if<Contribution>(&request.said);
  const auto* const pull = std::get_if<Pull>(&request.said);
  Answer answer;
  answer.sequence = std::visit([](const auto& one) { return one.sequence; }, request.said);
  answer.failure = result.failure;
  if (said != nullptr) answer.room = said->room;
  if (pull != nullptr) answer.room = pull->room;
  if (answer.room) answer.room->filled = 0;
  if (!result.failure && (said == nullptr || wants_data(*said, worker))) {
    if (said != nullptr && result.is_in(*said)) {
      answer.room->filled = result.delivered;
    } else {
      answer.data = {result.elements.as<const std::byte>(), result.elements.bytes()};
      answer.keeper = result.elements.owner();
    }
  }
  rules_.send(worker, answer);
  waiting_[static_cast<std::size_t>(worker)] -= bytes_here(request);
  queue.pop_front();
}

/// What the machine refuses, memory say, is an error of the calls: whoever comes last has done
/// nothing wrong.
template <typename Execute>
Value::Result Piece::result_of(const Execute& execute) const {
  try {
    return execute();
  } catch (const Error& error) {
    const std::string text = fmt::format("key {}: {}", value_.key().describe(), error.what());
    return {.failure = Failure{error.code(), text, {}}, .elements = {}};
  }
}

bool Piece::advance_alone(int worker) {
  const Queue& queue = queues_[static_cast<std::size_t>(worker)];
  if (queue.empty()) return false;
  if (const auto* const pull = std::get_if<Pull>(&queue.front().said)) {
    answer(worker, result_of([&] { return value_.read(*pull); }));
    return true;
  }
  if (std::holds_alternative<PullState>(queue.front().said)) {
    answer(worker, result_of([&] { return value_.read_state(); }));
    return true;
  }
  const auto at = static_cast<std::size_t>(worker);
  if (is_in_round(at) || is_too_far_ahead(at)) return false;
  const auto* const said = std::get_if<Contribution>(&queue.front().said);
  const Value::Result result =
      result_of([&] { return said == nullptr ? Value::Result{} : value_.execute_alone(*said); });
  ++pushes_[at];
  answer(worker, result);
  return true;
}

bool Piece::advance_round() {
  for (std::size_t worker = 0; worker < queues_.size(); ++worker) {
    if (!is_in_round(worker)) return false;
  }
  const Value::Result result = result_of([this] { return execute_round(); });
  if (!result.failure) ++rounds_;
  for (int worker = 0; worker < rules_.workers; ++worker) answer(worker, result);
  return true;
}

Value::Result Piece::execute_round() {
  std::vector<const Contribution*> round;
  std::vector<int> given_up;
  for (std::size_t worker = 0; worker < queues_.size(); ++worker) {
    const Request& request = queues_[worker].front();
    if (const auto* const gone = std::get_if<Withdrawal>(&request.said)) {
      const int rank = static_cast<int>(worker);
      if (gone->failure) return {.failure = withdrawn(value_.key(), rank, *gone->failure)};
      given_up.push_back(rank);
    }
    round.push_back(std::get_if<Contribution>(&request.said));
  }
  if (given_up.empty()) return value_.execute(round);
  return {.failure = withdrawn(value_.key(), std::move(given_up)), .elements = {}};
}

/// A round that lacks a worker which brings nothing more never comes about.
bool Piece::fail_for_absent() {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (!rules_.absent[i] || !queues_[i].empty()) continue;
    bool failed = false;
    for (int worker = 0; worker < rules_.workers; ++worker) {
      if (!is_in_round(static_cast<std::size_t>(worker))) continue;
      answer(worker, {.failure = rules_.absent[i], .elements = {}});
      failed = true;
    }
    if (failed) return true;
  }
  return false;
}

}  // namespace tutti::ps
