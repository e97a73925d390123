#include "ps/worker/outstanding_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/wait_limits.h"
#include "ps/protocol/rows.h"
#include "tutti/shard.h"

namespace tutti::ps {
namespace {

using base::Clock;

/// When to ask, so that the answer is there when it is needed. A healthy server answers in that
/// time.
Clock::duration asked_by(Clock::duration needed) {
  constexpr Clock::duration most_before = std::chrono::seconds(5);
  return needed - std::min(needed / 4, most_before);
}

std::string cause_of(const InFlightCall& call) {
  if (!call.missing) return "has every worker made the same call?";
  return call.missing->who.text + "; every worker has to make the same calls";
}

/// The failure of a single key also names the key as data. A lost peer concerns all keys.
std::exception_ptr error_of(const Failure& failure, const InFlightCall& call) {
  std::optional<Key> key = call.key;
  std::string text = failure.text;
  if (failure.code == ErrorCode::peer_lost || failure.code == ErrorCode::aborted) {
    text += fmt::format("; {} was under way", call.what);
    key.reset();
  }
  return std::make_exception_ptr(Error(failure.code, text, {.key = key, .ranks = failure.ranks}));
}

void write(const Task& task, std::span<const std::byte> data, const Shard& piece) {
  const std::size_t element = size_of(task.dtype);
  const std::size_t count =
      task.rows ? count_of_rows(*task.rows, task.shape, piece) : piece.count();
  if (data.size() != count * element) {
    throw Error(ErrorCode::internal, fmt::format("{} got {} bytes for a piece of {}",
                                                 task.describe(), data.size(), count * element));
  }
  if (piece.count() == 0) return;
  for (const Tensor& out : task.outs) {
    if (task.rows) {
      scatter_rows(*task.rows, task.shape, piece, element, data.data(), out.as<std::byte>());
      continue;
    }
    std::memcpy(out.as<std::byte>() + piece.begin * element, data.data(), data.size());
  }
}

Sent sent_as(std::size_t server, std::uint64_t sequence, const InFlightCall& call,
             std::uint32_t piece, std::uint32_t pieces) {
  Sent sent{server, sequence, {}};
  if (call.key) sent.piece = {*call.key, piece, pieces};
  return sent;
}

void clear_others(const Task& task) {
  for (const Tensor& out : task.outs) {
    clear_other_rows(*task.rows, task.shape, size_of(task.dtype), out.as<std::byte>());
  }
}

}  // namespace

std::string Task::describe() const {
  const std::string_view pulls = rows ? "row_sparse_pull" : "pull";
  const std::string_view method = kind ? name(*kind) : pulls;
  return fmt::format("{} of key {}", called.empty() ? method : called, key.describe());
}

void WorkerTally::add(const Task& done) {
  if (!done.kind || *done.kind == Kind::init) return;
  const bool broadcast = *done.kind == Kind::broadcast;
  ++(broadcast ? tensors_broadcast : tensors_reduced);
  (broadcast ? bytes_broadcast : bytes_reduced) += done.shape.count() * size_of(done.dtype);
}

OutstandingRequests::OutstandingRequests(int rank, std::size_t servers, const Limits& limits,
                                         WorkerTally& tally)
    : limits_(limits),
      tally_(tally),
      waiting_(servers),
      questions_(servers),
      sequence_(servers),
      window_(servers),
      recalls_(rank, limits.timeout, limits.answer_within,
               [this](std::size_t server, Recall said) {
                 said.sequence = number(server);
                 limits_.send(server, said);
                 return said.sequence;
               }),
      next_report_(limits.stall_report_after) {}

void OutstandingRequests::begin(const std::shared_ptr<InFlightCall>& call, std::size_t answers) {
  call->begun = limits_.clock();
  call->unanswered = answers;
  calls_.push_back(call);
}

std::uint64_t OutstandingRequests::add(std::size_t server, std::shared_ptr<InFlightCall> call,
                                       std::uint32_t piece, std::uint32_t pieces, std::size_t bytes,
                                       bool prepares) {
  const std::uint64_t sequence = number(server);
  const bool takes_part = call->takes_part() && !prepares;
  if (call->is_overdue) recalls_.note_sent(*call, sent_as(server, sequence, *call, piece, pieces));
  waiting_[server].emplace(sequence, Unanswered{std::move(call), piece, pieces, bytes, takes_part});
  window_.send(server, bytes, limits_.clock());
  return sequence;
}

void OutstandingRequests::take(std::size_t server, const Answer& answer) {
  const auto it = waiting_[server].find(answer.sequence);
  if (it == waiting_[server].end()) return take_missing(server, answer);
  const Unanswered request = std::move(it->second);
  waiting_[server].erase(it);
  window_.answer(server, request.bytes, limits_.clock());
  InFlightCall& call = *request.call;
  if (call.missing && call.missing->server == server) call.missing.reset();
  if (call.is_overdue) recalls_.note_answer(call, server, answer.sequence, limits_.clock());
  const bool counts = !answer.failure || call.counts_if_failed;
  if (counts && request.takes_part) call.is_executed = true;
  if (answer.failure) {
    if (!call.failure || request.piece < call.failed_piece) {
      call.failure = error_of(*answer.failure, call);
      call.failed_piece = request.piece;
    }
  } else if (call.take) {
    call.take(request.piece, request.pieces, answer.data);
  } else if (!call.task.outs.empty()) {
    write(call.task, answer.data,
          shard(call.task.shape.count(), static_cast<int>(request.piece),
                static_cast<int>(request.pieces)));
  }
  if (--call.unanswered == 0) finish(request.call);
}

void OutstandingRequests::take_missing(std::size_t server, const Answer& answer) {
  if (recalls_.take(server, answer, limits_.clock())) return;
  const auto asked = questions_[server].extract(answer.sequence);
  if (asked && answer.failure) asked.mapped()->missing = {server, *answer.failure};
}

/// The tensors are released before the call is done. Their deleters belong to the program.
void OutstandingRequests::finish(const std::shared_ptr<InFlightCall>& call) {
  if (!call->failure) {
    if (call->task.rows) clear_others(call->task);
    tally_.add(call->task);
  }
  if (call->is_overdue) recalls_.forget(*call);
  const auto now = limits_.clock();
  if (call->kind && now - call->begun > limits_.timeout / 2) slow_[*call->key] = now;
  {
    const base::CallbackScope scope;
    call->task = {};
  }
  const auto completion = std::exchange(call->completion, nullptr);
  while (!calls_.empty() && !calls_.front()->completion) calls_.pop_front();
  completion->finish(call->failure);
}

void OutstandingRequests::fail_all(const std::exception_ptr& failure) {
  for (BySequence& table : waiting_) table.clear();
  for (Questions& questions : questions_) questions.clear();
  while (!calls_.empty()) {
    const std::shared_ptr<InFlightCall> call = calls_.front();
    call->failure = failure;
    finish(call);
  }
}

/// The next step of the oldest call: its next report, or its time limit.
Clock::duration OutstandingRequests::next_step() const {
  const InFlightCall& oldest = *calls_.front();
  const bool has_passed = limit_of(oldest) != oldest.begun + limits_.timeout;
  return has_passed ? next_report_ : std::min(next_report_, limits_.timeout);
}

/// The worker has already asked about all calls before this one, for the end of their time.
OutstandingRequests::Calls::const_iterator OutstandingRequests::first_unasked() const {
  // This is nearly always so.
  if (!calls_.empty() && calls_.front()->asked_for < limits_.timeout) return calls_.begin();
  return std::ranges::partition_point(
      calls_, [this](const auto& call) { return call->asked_for >= limits_.timeout; });
}

std::optional<Clock::time_point> OutstandingRequests::due() const {
  if (calls_.empty()) return std::nullopt;
  const InFlightCall& oldest = *calls_.front();
  const Clock::duration step = next_step();
  auto due = oldest.begun + (oldest.asked_for < step ? asked_by(step) : step);
  const auto unasked = first_unasked();
  if (unasked != calls_.end()) due = std::min(due, (*unasked)->begun + asked_by(limits_.timeout));
  for (const auto& call : calls_) {
    const auto limit = limit_of(*call);
    due = std::min(due, limit.value_or(due));
    // Calls that began later have more time.
    if (limit == call->begun + limits_.timeout) break;
  }
  return std::min(due, recalls_.due().value_or(due));
}

/// The time limit of the call. None if the call is over or its limit has passed. A pull that
/// follows another call for its key is answered once that one is over. Its time begins then.
std::optional<Clock::time_point> OutstandingRequests::limit_of(const InFlightCall& call) const {
  if (!call.completion || call.is_overdue) return std::nullopt;
  const auto limit = call.anew.value_or(call.begun) + limits_.timeout;
  if (call.takes_part() || !call.key) return limit;
  if (recalls_.concern(*call.key)) return std::nullopt;
  const auto slow = slow_.find(*call.key);
  return slow == slow_.end() ? limit : std::max(limit, slow->second + limits_.timeout);
}

/// The worker asks the servers about a call shortly before the end of its time. If it could not ask
/// in time, this worker was stopped, or a server was away, whose answer may have been lost with the
/// connection. Then the passed time says nothing about the servers, and a call that reads gets the
/// whole time once more. (A call that takes part in rounds is recalled, which asks the servers.)
void OutstandingRequests::give_time_anew(Clock::time_point now) {
  const Clock::duration in_time = (asked_by(limits_.timeout) + limits_.timeout) / 2;
  for (auto it = first_unasked(); it != calls_.end() && now - (*it)->begun > in_time; ++it) {
    InFlightCall& call = **it;
    if (call.completion && !call.takes_part() && !call.anew) call.anew = now;
  }
}

/// Asks about the oldest call for its next report, and about each call for the end of its time.
void OutstandingRequests::ask(Clock::time_point now) {
  std::set<const InFlightCall*> about;
  const auto is_due = [&](InFlightCall& call, Clock::duration needed) {
    if (call.asked_for >= needed || now - call.begun < asked_by(needed)) return false;
    call.asked_for = needed;
    // The workers that were missing then may have come.
    call.missing.reset();
    if (call.completion) about.insert(&call);
    return true;
  };
  if (!calls_.empty()) is_due(*calls_.front(), next_step());
  for (auto it = first_unasked(); it != calls_.end() && is_due(**it, limits_.timeout);) ++it;
  if (!about.empty()) ask_about(about);
}

/// Asks each server once about each call. The first piece stands for all pieces of that server.
void OutstandingRequests::ask_about(const std::set<const InFlightCall*>& calls) {
  for (std::size_t server = 0; server < waiting_.size(); ++server) {
    auto left = calls;
    for (const auto& [sequence, request] : waiting_[server]) {
      if (left.empty()) break;
      if (left.erase(request.call.get()) == 0) continue;
      FindMissing question{number(server), {}};
      if (request.call->key) question.piece = {*request.call->key, request.piece, request.pieces};
      questions_[server].emplace(question.sequence, request.call);
      limits_.send(server, question);
    }
  }
}

void OutstandingRequests::look(Clock::time_point now) {
  give_time_anew(now);
  ask(now);
  report(now);
  const auto late = late_calls(now);
  recall(late, now);
  for (const auto& call : late) {
    if (limit_of(*call)) time_out(call);
  }
  recalls_.look(now);
  std::erase_if(slow_, [&](const auto& one) { return now - one.second > 2 * limits_.timeout; });
}

void OutstandingRequests::report(Clock::time_point now) {
  const Clock::duration waited = calls_.empty() ? Clock::duration() : now - calls_.front()->begun;
  if (waited < std::min(limits_.stall_report_after, limits_.timeout)) {
    next_report_ = limits_.stall_report_after;
    return;
  }
  if (waited < next_report_) return;
  const InFlightCall& oldest = *calls_.front();
  base::log().warn("{} has waited {:.0f} s for {}: {}", oldest.what, base::in_seconds(waited),
                   awaited(oldest), cause_of(oldest));
  next_report_ = 2 * waited;
}

/// The calls whose time limit has just passed.
std::vector<std::shared_ptr<InFlightCall>> OutstandingRequests::late_calls(
    Clock::time_point now) const {
  std::vector<std::shared_ptr<InFlightCall>> late;
  for (const auto& call : calls_) {
    if (now - call->begun < limits_.timeout) break;
    const auto limit = limit_of(*call);
    if (limit && *limit <= now) late.push_back(call);
  }
  return late;
}

/// Recalls those of these calls that take part in rounds.
void OutstandingRequests::recall(const std::vector<std::shared_ptr<InFlightCall>>& calls,
                                 Clock::time_point now) {
  std::map<const InFlightCall*, std::vector<Sent>> sent;
  for (const auto& call : calls) {
    if (call->takes_part()) sent[call.get()];
  }
  for (std::size_t server = 0; server < waiting_.size() && !sent.empty(); ++server) {
    for (const auto& [sequence, request] : waiting_[server]) {
      const auto of_call = sent.find(request.call.get());
      if (!request.takes_part || of_call == sent.end()) continue;
      of_call->second.push_back(
          sent_as(server, sequence, *request.call, request.piece, request.pieces));
    }
  }
  for (const auto& call : calls) {
    if (call->takes_part()) recalls_.begin(call, std::move(sent[call.get()]), now);
  }
}

/// Times out a call that reads. No other worker has a part in it.
void OutstandingRequests::time_out(const std::shared_ptr<InFlightCall>& call) {
  call->failure = std::make_exception_ptr(Error(
      ErrorCode::timeout,
      fmt::format("{} was not answered by {} within {}: {}", call->what, awaited(*call),
                  base::key_limit(limits_.timeout), cause_of(*call)),
      {.key = call->key, .ranks = call->missing ? call->missing->who.ranks : std::vector<int>{}}));
  for (std::size_t server = 0; server < waiting_.size(); ++server) {
    std::erase_if(waiting_[server], [&](const auto& one) {
      if (one.second.call != call) return false;
      window_.answer(server, one.second.bytes, limits_.clock());
      return true;
    });
    std::erase_if(questions_[server], [&](const auto& one) { return one.second == call; });
  }
  finish(call);
}

void OutstandingRequests::postpone(Clock::duration time) {
  const auto now = limits_.clock();
  recalls_.postpone(time, now);
  for (const auto& call : calls_) {
    call->begun = std::min(now, call->begun + time);
    if (call->anew) call->anew = std::min(now, *call->anew + time);
    call->asked_for = {};
  }
}

std::string OutstandingRequests::describe() const {
  std::vector<const InFlightCall*> open;
  for (const auto& call : calls_) {
    if (call->completion) open.push_back(call.get());
  }
  if (open.empty()) return "no call was under way";
  if (open.size() == 1) return fmt::format("{} was under way", open.front()->what);
  return fmt::format("{} and {} more calls were under way", open.front()->what, open.size() - 1);
}

std::vector<std::shared_ptr<base::Completion>> OutstandingRequests::under_way() const {
  std::vector<std::shared_ptr<base::Completion>> open;
  for (const auto& call : calls_) {
    if (call->completion) open.push_back(call->completion);
  }
  return open;
}

std::shared_ptr<base::Completion> OutstandingRequests::awaiting(std::size_t server,
                                                                const Answer& answer) const {
  const auto it = waiting_[server].find(answer.sequence);
  return it == waiting_[server].end() ? nullptr : it->second.call->completion;
}

/// Names the server for which a call waits, such as "server 1". That server may have said which
/// workers are missing. Returns "the servers" if nothing of the call has been sent.
std::string OutstandingRequests::awaited(const InFlightCall& call) const {
  if (call.missing) return fmt::format("server {}", call.missing->server);
  for (std::size_t server = 0; server < waiting_.size(); ++server) {
    const auto is_of_call = [&](const auto& one) { return one.second.call.get() == &call; };
    if (std::ranges::any_of(waiting_[server], is_of_call)) return fmt::format("server {}", server);
  }
  return "the servers";
}

}  // namespace tutti::ps
