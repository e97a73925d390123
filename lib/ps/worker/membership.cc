#include "ps/worker/membership.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/failure.h"
#include "base/wait_limits.h"
#include "tutti/error.h"

namespace tutti::ps {
namespace {

using base::Clock;

}  // namespace

Membership::Membership(const Job& job, const Options& options) : link_(job, options, poller_, 0) {
  link_.send(Stay{});
  link_.or_word_of_end([&] { wait_for_number(job, options.create_timeout); });
  link_.flush();
}

void Membership::wait_for_number(const Job& job, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (number_ == 0) {
    link_.flush();
    poller_.wait(std::min(deadline, link_.due().value_or(deadline)));
    link_.receive([this](const FromScheduler& message) {
      if (const auto* const staying = std::get_if<Staying>(&message)) number_ = staying->membership;
    });
    if (number_ == 0 && Clock::now() >= deadline) {
      throw Error(ErrorCode::timeout,
                  fmt::format("{} did not answer within {}", job.describe_scheduler(),
                              base::create_limit(limit)));
    }
  }
}

void Membership::check(Clock::duration patience) {
  poller_.wait(Clock::now() + patience);
  try {
    if (ended_) throw *ended_;
    link_.receive([](const FromScheduler& message) {
      if (const auto* const refused = std::get_if<Refused>(&message)) {
        throw_failure(refused->failure);
      }
      if (const auto* const lost = std::get_if<Lost>(&message)) throw_failure(failure_of(*lost));
    });
  } catch (const Error& error) {
    ended_ = error;
    throw base::reworded(error, fmt::format("this process's parameter-server job has ended: {}; "
                                            "start the whole job again",
                                            error.what()));
  }
}

/// The object is never destroyed, because the connections of a process end with it.
Memberships& Memberships::of_process() {
  static Memberships& all = *new Memberships;
  return all;
}

/// If a child kept its copy, the connection would stay open when the parent has ended.
Memberships::Memberships() {
  ::pthread_atfork([] { of_process().prepare_fork(); }, [] { of_process().go_on_after_fork(); },
                   [] { of_process().begin_as_child(); });
}

void Memberships::begin_as_child() {
  for (Entry& entry : entries_) {
    if (entry.membership) entry.membership->abandon();
    // A thread that does not exist in this child may have held the mutex at the fork.
    static_cast<void>(entry.membership.release());
  }
  entries_.clear();
  mutex_.unlock();
}

Memberships::Entries::iterator Memberships::reserve(const std::string& job) {
  const base::Lock lock(mutex_);
  int lent = 0;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->job != job) continue;
    if (!std::exchange(it->is_lent, true)) return it;
    ++lent;
  }
  const auto most = most_.find(job);
  if (lent < (most == most_.end() ? 1 : most->second)) {
    return entries_.insert(entries_.end(), {.job = job, .membership = nullptr});
  }
  throw Error(
      ErrorCode::invalid_argument,
      "this process has a store of its parameter-server job that is still open, and a job has "
      "one store at a time: close that store first (KVStore::close, in Python kv.close()), or "
      "use it with other keys; a store that a Python program has dropped stays open until Python "
      "frees it");
}

Memberships::Entries::iterator Memberships::lend(const Job& job, const Options& options) {
  const auto entry = reserve(job.describe_scheduler());
  try {
    if (entry->membership) {
      entry->membership->check();
      return entry;
    }
    auto made = std::make_unique<Membership>(job, options);
    const base::Lock lock(mutex_);
    entry->membership = std::move(made);
    return entry;
  } catch (...) {
    take_back(entry);
    throw;
  }
}

/// A membership of a job that has ended is of no use, because the next store may belong to another
/// job at the same place.
void Memberships::take_back(Entries::iterator entry) {
  const base::Lock lock(mutex_);
  entry->is_lent = false;
  if (!entry->membership || entry->membership->has_ended()) entries_.erase(entry);
}

void Memberships::allow(const Job& job, int most) {
  const base::Lock lock(mutex_);
  most_[job.describe_scheduler()] = most;
}

void Memberships::leave(const Job& job) {
  const base::Lock lock(mutex_);
  entries_.remove_if([name = job.describe_scheduler()](const Entry& entry) {
    return entry.job == name && !entry.is_lent;
  });
}

Memberships::Loan::Loan(Memberships& from, const Job& job, const Options& options)
    : from_(from), entry_(from.lend(job, options)) {}

void Memberships::Loan::give_back() {
  if (!std::exchange(is_given_back_, true)) from_.take_back(entry_);
}

}  // namespace tutti::ps
