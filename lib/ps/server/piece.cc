#include "ps/server/piece.h"

#include <fmt/format.h>

#include <algorithm>

#include "ps/protocol/compression.h"
#include "ps/protocol/missing.h"

namespace tutti::ps {

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
    throw Error(ErrorCode::internal,
                fmt::format("a {} of {} cannot be compressed with '{}'", name(said.kind),
                            name(said.dtype), name(encoding)));
  }
  if (said.data.size() != wanted || said.root < 0 || said.root >= rules_.workers) {
    throw Error(ErrorCode::internal, fmt::format("a {} brings {} bytes, but should bring {}",
                                                 name(said.kind), said.data.size(), wanted));
  }
  Queued request{said, {}};
  if (!said.keeper) {
    request.data = {said.data.begin(), said.data.end()};
    std::get<Contribution>(request.said).data = request.data;
  }
  waiting_.bytes[static_cast<std::size_t>(worker)] += bytes_here(request);
  queues_[static_cast<std::size_t>(worker)].push_back(std::move(request));
}

void Piece::add(int worker, const Pull& pull) {
  queues_[static_cast<std::size_t>(worker)].push_back({pull});
}

void Piece::add(int worker, const PullState& pull) {
  queues_[static_cast<std::size_t>(worker)].push_back({pull});
}

void Piece::add(int worker, const Withdrawal& said) {
  queues_[static_cast<std::size_t>(worker)].push_back({.said = said, .given_up = said.failure});
}

std::optional<Failure> Piece::recall(int worker, const Recall& said) {
  const auto at = static_cast<std::size_t>(worker);
  Queue& queue = queues_[at];
  const auto request = std::ranges::find(queue, said.request, sequence_of);
  if (request == queue.end()) return std::nullopt;
  set_held(*request, said.step == Recall::Step::hold);
  if (said.step == Recall::Step::give_up) request->given_up = said.failure;
  return missing_for(at, request);
}

void Piece::set_held(Queued& request, bool is_held) {
  if (request.is_held) --waiting_.held;
  request.is_held = is_held;
  if (is_held) ++waiting_.held;
}

/// Elements in shared memory do not count, because that memory exists in any case.
std::uint64_t Piece::bytes_here(const Queued& request) {
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
      while (bury(worker) || advance_alone(worker)) moved = true;
    }
    moved = fail_given_up() || advance_round() || fail_for_absent() || moved;
  }
}

std::uint64_t Piece::sequence_of(const Queued& request) {
  return std::visit([](const auto& said) { return said.sequence; }, request.said);
}

/// The kind of a contribution, even of a withdrawn one.
std::optional<Kind> Piece::kind_of(const Queued& request) {
  if (const auto* const said = std::get_if<Contribution>(&request.said)) return said->kind;
  if (const auto* const said = std::get_if<Withdrawal>(&request.said)) return said->kind;
  return std::nullopt;
}

/// Whether the request belongs to a round. An asynchronous pushpull of a key without a value only
/// reduces, and that needs all workers.
bool Piece::is_collective(const Queued& request) const {
  const std::optional<Kind> kind = kind_of(request);
  if (!kind || !rules_.asynchronous) return kind.has_value();
  if (*kind == Kind::pushpull) return !value_.is_stored();
  return *kind != Kind::push;
}

/// Whether the worker's first request waits for those of all others.
bool Piece::is_in_round(std::size_t worker) const {
  const Queue& queue = queues_[worker];
  return !queue.empty() && is_collective(queue.front());
}

bool Piece::is_held() const {
  return std::ranges::any_of(
      queues_, [](const Queue& queue) { return !queue.empty() && queue.front().is_held; });
}

/// The reason why the worker's first request fails, if it fails. Nobody knows whether a lost worker
/// would have released a request that it held.
std::optional<Failure> Piece::given_up(std::size_t worker) const {
  const Queued& request = queues_[worker].front();
  if (request.is_held && rules_.is_lost(worker)) return rules_.absent[worker];
  return request.given_up;
}

bool Piece::comes_no_more(std::size_t worker) const {
  return rules_.absent[worker] && queues_[worker].empty();
}

/// Whether the worker's first request waits for the other worker: for its part in the round, or, in
/// an asynchronous store with a bound, for its pushes. A worker that waits for a round pushes
/// nothing until the others have come to that round.
bool Piece::holds_up(std::size_t other, std::size_t worker) const {
  if (is_in_round(other)) return false;
  if (is_in_round(worker)) return true;
  if (rules_.staleness == unbounded || other == worker || rules_.absent[other]) return false;
  const auto most_ahead = static_cast<std::uint64_t>(rules_.staleness);
  return pushes_[worker] + 1 > pushes_[other] + most_ahead;
}

/// Whether another asynchronous push would put the worker too far ahead of the slowest worker that
/// still pushes.
bool Piece::is_too_far_ahead(std::size_t worker) const {
  if (rules_.staleness == unbounded) return false;
  for (std::size_t other = 0; other < queues_.size(); ++other) {
    if (holds_up(other, worker)) return true;
  }
  return false;
}

/// The workers that have brought nothing to this round. `round` counts from the next round on.
std::vector<int> Piece::absent_from(std::size_t round) const {
  std::vector<int> absent;
  for (std::size_t worker = 0; worker < queues_.size(); ++worker) {
    const auto come = std::ranges::count_if(
        queues_[worker], [this](const Queued& request) { return is_collective(request); });
    if (static_cast<std::size_t>(come) <= round) absent.push_back(static_cast<int>(worker));
  }
  return absent;
}

std::optional<Failure> Piece::missing_for(std::size_t worker, Queue::const_iterator request) const {
  const std::optional<Kind> kind = kind_of(*request);
  if (!kind) return std::nullopt;
  std::vector<int> missing;
  if (is_collective(*request)) {
    missing = absent_from(static_cast<std::size_t>(
        std::count_if(queues_[worker].begin(), request,
                      [this](const Queued& before) { return is_collective(before); })));
  } else {
    for (std::size_t other = 0; other < queues_.size(); ++other) {
      if (holds_up(other, worker)) missing.push_back(static_cast<int>(other));
    }
  }
  if (missing.empty()) return std::nullopt;
  return not_made(std::move(missing),
                  fmt::format("{} of key {}", name(*kind), value_.key().describe()));
}

/// The later requests of the worker wait for its first one.
std::optional<Failure> Piece::missing_for(int worker) const {
  const auto at = static_cast<std::size_t>(worker);
  if (queues_[at].empty()) return std::nullopt;
  return missing_for(at, queues_[at].begin());
}

void Piece::answer(int worker, const Value::Result& result) {
  Queue& queue = queues_[static_cast<std::size_t>(worker)];
  Queued& request = queue.front();
  const auto* const said = std::get_if<Contribution>(&request.said);
  const auto* const pull = std::get_if<Pull>(&request.said);
  Answer answer;
  answer.sequence = sequence_of(request);
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
  waiting_.bytes[static_cast<std::size_t>(worker)] -= bytes_here(request);
  set_held(request, false);
  queue.pop_front();
}

/// If the machine refuses something, such as memory, all calls of the round fail, because the
/// worker that comes last has done nothing wrong.
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
  if (is_in_round(at)) return false;
  // The push does not count, and its worker may make it again.
  if (const auto failure = given_up(at)) {
    answer(worker, {.failure = failure});
    return true;
  }
  if (queue.front().is_held || is_too_far_ahead(at)) return false;
  const auto& said = std::get<Contribution>(queue.front().said);
  const Value::Result result = result_of([&] { return value_.execute_alone(said); });
  ++pushes_[at];
  answer(worker, result);
  return true;
}

/// Answers the worker's first contribution if it belongs to a round that has failed.
bool Piece::bury(int worker) {
  if (tombstones_.empty()) return false;
  if (comes_no_more(static_cast<std::size_t>(worker))) {
    tombstones_.forget(worker);
    return false;
  }
  const Failure* const failure = tombstones_.first(worker);
  if (failure == nullptr || !is_in_round(static_cast<std::size_t>(worker))) return false;
  answer(worker, {.failure = *failure});
  tombstones_.take(worker);
  return true;
}

/// Fails a round that a worker has given up. Workers that have come to the round hear of it at
/// once, and the others when they come.
bool Piece::fail_given_up() {
  std::optional<Failure> failure;
  for (std::size_t worker = 0; worker < queues_.size() && !failure; ++worker) {
    if (is_in_round(worker)) failure = given_up(worker);
  }
  if (!failure) return false;
  std::set<int> absent;
  for (int worker = 0; worker < rules_.workers; ++worker) {
    const auto at = static_cast<std::size_t>(worker);
    if (is_in_round(at)) {
      answer(worker, {.failure = failure});
    } else if (!comes_no_more(at)) {
      absent.insert(worker);
    }
  }
  tombstones_.add(*failure, std::move(absent));
  return true;
}

bool Piece::advance_round() {
  for (std::size_t worker = 0; worker < queues_.size(); ++worker) {
    if (!is_in_round(worker)) return false;
  }
  if (is_held()) return false;
  const Value::Result result = result_of([this] { return execute_round(); });
  if (!result.failure) ++rounds_;
  for (int worker = 0; worker < rules_.workers; ++worker) answer(worker, result);
  return true;
}

Value::Result Piece::execute_round() {
  std::vector<const Contribution*> round;
  round.reserve(queues_.size());
  for (const Queue& queue : queues_) round.push_back(&std::get<Contribution>(queue.front().said));
  return value_.execute(round);
}

/// Fails a round that lacks a worker which brings nothing more.
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
