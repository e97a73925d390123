#include "ps/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "tutti/shard.h"

namespace tutti::ps {
namespace {

using base::Clock;

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

/// Failures of single keys name the key as data, too; a lost peer concerns all.
std::exception_ptr error_of(const Failure& failure, std::optional<Key> key) {
  if (failure.code == ErrorCode::peer_lost || failure.code == ErrorCode::aborted) key.reset();
  return std::make_exception_ptr(
      Error(failure.code, failure.text, {.key = key, .ranks = failure.ranks}));
}

void write(const Task& task, std::span<const std::byte> data, const Shard& piece) {
  const std::size_t element = size_of(task.dtype);
  if (data.size() != piece.count() * element) {
    throw Error(ErrorCode::internal,
                fmt::format("{} got {} bytes for a piece of {}", task.describe(), data.size(),
                            piece.count() * element));
  }
  if (data.empty()) return;
  for (const Tensor& out : task.outs) {
    std::memcpy(out.as<std::byte>() + piece.begin * element, data.data(), data.size());
  }
}

}  // namespace

std::string Task::describe() const {
  return fmt::format("{} of key {}", kind ? name(*kind) : "pull", key.describe());
}

void Tally::add(const Task& done) {
  if (!done.kind || *done.kind == Kind::init) return;
  const bool broadcast = *done.kind == Kind::broadcast;
  ++(broadcast ? tensors_broadcast : tensors_reduced);
  (broadcast ? bytes_broadcast : bytes_reduced) += done.shape.count() * size_of(done.dtype);
}

Requests::Requests(std::size_t servers, Limits limits, Tally& tally)
    : limits_(limits),
      tally_(tally),
      waiting_(servers),
      sequence_(servers),
      next_report_(limits.stall_report_after) {}

std::uint64_t Requests::add(std::size_t server, std::shared_ptr<Call> call, std::uint32_t piece,
                            std::uint32_t pieces) {
  const std::uint64_t sequence = ++sequence_[server];
  ++call->unanswered;
  waiting_[server].emplace(sequence, Request{std::move(call), piece, pieces});
  return sequence;
}

void Requests::take(std::size_t server, const Answer& answer) {
  const auto it = waiting_[server].find(answer.sequence);
  if (it == waiting_[server].end()) return;
  const Request request = std::move(it->second);
  waiting_[server].erase(it);
  Call& call = *request.call;
  if (answer.failure && !call.failure) call.failure = error_of(*answer.failure, call.key);
  if (!answer.failure && !call.task.outs.empty()) {
    write(call.task, answer.data,
          shard(call.task.shape.count(), static_cast<int>(request.piece),
                static_cast<int>(request.pieces)));
  }
  if (--call.unanswered == 0) finish(request.call);
}

/// The tensors go before the call is done; their deleters are the program's.
void Requests::finish(const std::shared_ptr<Call>& call) {
  if (!call->failure) tally_.add(call->task);
  {
    const base::CallbackScope scope;
    call->task = {};
  }
  std::exchange(call->completion, nullptr)->finish(call->failure);
}

void Requests::fail_all(const std::exception_ptr& failure) {
  for (Table& table : waiting_) {
    for (const auto& [sequence, request] : std::exchange(table, {})) {
      if (!request.call->completion) continue;
      request.call->failure = failure;
      finish(request.call);
    }
  }
}

bool Requests::empty() const {
  return std::ranges::all_of(waiting_, [](const Table& table) { return table.empty(); });
}

void Requests::look(Clock::time_point now) {
  bool is_late = false;
  for (std::size_t server = 0; server < waiting_.size(); ++server) {
    if (waiting_[server].empty()) continue;
    // The oldest request to a server is the first one.
    const std::shared_ptr<Call> call = waiting_[server].begin()->second.call;
    is_late = is_late || now - call->begun >= limits_.stall_report_after;
    if (now - call->begun >= next_report_) report(server, *call, now);
    if (now - call->begun < limits_.timeout) continue;
    call->failure = std::make_exception_ptr(Error(
        ErrorCode::timeout,
        fmt::format("{} was not answered by server {} within {:g} s: has every worker made the "
                    "same call?",
                    call->what, server, seconds(limits_.timeout))));
    for (Table& table : waiting_) {
      std::erase_if(table, [&](const auto& one) { return one.second.call == call; });
    }
    finish(call);
  }
  if (!is_late) next_report_ = limits_.stall_report_after;
}

void Requests::report(std::size_t server, const Call& call, Clock::time_point now) {
  base::log().warn("{} has waited {:.0f} s for server {}: has every worker made the same call?",
                   call.what, seconds(now - call.begun), server);
  next_report_ = 2 * (now - call.begun);
}

}  // namespace tutti::ps
