#include "ps/worker/recalls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/wait_limits.h"
#include "ps/protocol/missing.h"

namespace tutti::ps {
namespace {

using base::Clock;

std::vector<std::size_t> servers_of(const std::vector<Sent>& sent) {
  std::set<std::size_t> servers;
  for (const Sent& one : sent) servers.insert(one.server);
  return {servers.begin(), servers.end()};
}

}  // namespace

Recalls::Overdue* Recalls::find(const InFlightCall& call) {
  const auto it =
      std::ranges::find_if(overdue_, [&](const Overdue& one) { return one.call.get() == &call; });
  return it == overdue_.end() ? nullptr : &*it;
}

void Recalls::begin(const std::shared_ptr<InFlightCall>& call, std::vector<Sent> sent,
                    Clock::time_point now) {
  call->is_overdue = true;
  overdue_.push_back({.call = call, .sent = std::move(sent)});
  hold(overdue_.back(), now);
}

void Recalls::tell(const Overdue& overdue, Recall::Step step,
                   const std::optional<Failure>& failure) {
  for (const Sent& one : overdue.sent) {
    const std::uint64_t number =
        send_(one.server,
              {.request = one.sequence, .piece = one.piece, .step = step, .failure = failure});
    if (step == Recall::Step::hold) holds_.emplace(std::pair(one.server, number), overdue.call);
  }
}

void Recalls::hold(Overdue& overdue, Clock::time_point now) {
  overdue.stage = Stage::holding;
  overdue.until = now + answer_within_;
  overdue.asked = overdue.sent.size();
  overdue.missing.clear();
  overdue.call->is_undecided = true;
  tell(overdue, Recall::Step::hold);
  if (overdue.asked == 0) decide(overdue, now);
}

void Recalls::note_sent(const InFlightCall& call, Sent one) {
  if (Overdue* const overdue = find(call)) overdue->sent.push_back(std::move(one));
}

void Recalls::note_answer(const InFlightCall& call, std::size_t server, std::uint64_t sequence,
                          Clock::time_point now) {
  Overdue* const overdue = find(call);
  if (overdue == nullptr) return;
  overdue->until = now + answer_within_;
  std::erase_if(overdue->sent,
                [&](const Sent& one) { return one.server == server && one.sequence == sequence; });
}

bool Recalls::take(std::size_t server, const Answer& answer, Clock::time_point now) {
  const auto asked = holds_.extract({server, answer.sequence});
  if (!asked) return false;
  Overdue* const overdue = find(*asked.mapped());
  if (overdue == nullptr) return true;
  if (answer.failure) {
    overdue->missing.insert(answer.failure->ranks.begin(), answer.failure->ranks.end());
  }
  if (--overdue->asked == 0) decide(*overdue, now);
  return true;
}

/// Each worker that has held all its pieces learns the same: either some server had executed a
/// piece before, or none had. So if two workers do this at the same time, they agree. A call that
/// all workers have made is released once, because another worker may hold it for ever.
void Recalls::decide(Overdue& overdue, Clock::time_point now) {
  InFlightCall& call = *overdue.call;
  call.is_undecided = false;
  const bool is_all_there =
      overdue.missing.empty() && call.unanswered == overdue.sent.size() && !call.failure;
  if (!call.is_executed && (!is_all_there || overdue.was_released)) return give_up(overdue, now);
  overdue.until = now + answer_within_;
  overdue.stage = Stage::released;
  overdue.was_released = true;
  tell(overdue, Recall::Step::release);
}

void Recalls::give_up(Overdue& overdue, Clock::time_point now) {
  InFlightCall& call = *overdue.call;
  overdue.until = now + answer_within_;
  overdue.stage = Stage::given_up;
  call.withdrawn = failure_of(overdue);
  tell(overdue, Recall::Step::give_up, call.withdrawn);
}

/// All workers are told this failure, so it names the worker whose time was up.
Failure Recalls::failure_of(const Overdue& overdue) const {
  const InFlightCall& call = *overdue.call;
  std::string cause = fmt::format("worker {} could not send all of it", rank_);
  std::vector<int> ranks(overdue.missing.begin(), overdue.missing.end());
  if (call.is_executed) {
    cause = "a part of it was executed, and the rest not in time";
  } else if (!ranks.empty()) {
    cause = not_made(ranks, (call.is_setting ? "call of " : "") + call.what).text;
  } else if (overdue.was_released) {
    cause =
        "all workers have made it, but another one held it too long, as one does whose time is "
        "up and whose callback does not return";
  } else {
    ranks = {rank_};
  }
  return {
      ErrorCode::timeout,
      fmt::format("{} was given up after {} on worker {}: {}; it has failed on {}", call.what,
                  base::key_limit(timeout_), rank_, cause,
                  call.is_of_one ? "this worker alone" : "all workers, and all may make it again"),
      std::move(ranks)};
}

void Recalls::forget(const InFlightCall& call) {
  std::erase_if(overdue_, [&](const Overdue& one) { return one.call.get() == &call; });
}

bool Recalls::concern(const Key& key) const {
  return std::ranges::any_of(overdue_, [&](const Overdue& one) { return one.call->key == key; });
}

void Recalls::look(Clock::time_point now) {
  for (Overdue& overdue : overdue_) {
    if (now < overdue.until) continue;
    if (overdue.stage != Stage::released) end_store(overdue);
    if (!overdue.call->is_executed) {
      // Other workers may be missing now.
      hold(overdue, now);
    } else if (overdue.call->is_of_one) {
      give_up(overdue, now);
    } else {
      end_store(overdue);
    }
  }
}

void Recalls::end_store(const Overdue& overdue) const {
  const std::string waited = base::seconds_text(answer_within_) +
                             ", the longer one of key_timeout (TUTTI_TIMEOUT_SECONDS) and "
                             "heartbeat_timeout (TUTTI_HEARTBEAT_SECONDS)";
  const std::string& what = overdue.call->what;
  const std::string servers = fmt::format("{}", fmt::join(servers_of(overdue.sent), ", "));
  if (overdue.stage == Stage::released) {
    throw Error(
        ErrorCode::peer_lost,
        fmt::format("{} was executed in part after its time limit, and no more of it within "
                    "another {}: {}, though every worker has begun to send it; it can neither "
                    "fail nor succeed on all workers, so the store ends",
                    what, waited,
                    servers.empty() ? fmt::format("worker {} could not send the rest", rank_)
                                    : fmt::format("server {} waits for it", servers)));
  }
  throw Error(ErrorCode::peer_lost,
              fmt::format("server {} is lost: {} reached its time limit, and the server has not "
                          "said how it ended within another {}",
                          servers.empty() ? "that does not read" : servers, what, waited));
}

std::optional<Clock::time_point> Recalls::due() const {
  const auto first = std::ranges::min_element(overdue_, {}, &Overdue::until);
  return first == overdue_.end() ? std::nullopt : std::optional(first->until);
}

void Recalls::postpone(Clock::duration time, Clock::time_point now) {
  for (Overdue& overdue : overdue_)
    overdue.until = std::min(now + answer_within_, overdue.until + time);
}

}  // namespace tutti::ps
