#include "control/presence.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/log.h"
#include "base/process_end.h"
#include "base/wait_limits.h"
#include "net/sockets.h"
#include "tutti/error.h"

namespace tutti::control {
namespace {

constexpr auto beat = std::chrono::milliseconds(100);

/// If the action fails, this process does not see some ranks. It then waits for them until the
/// deadline, as it does for ranks of other machines.
void try_to(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& failure) {
    base::log().debug("not every process of the job on this machine is seen: {}", failure.what());
  }
}

bool has_ended(const base::Fd& process) {
  pollfd entry{process.get(), POLLIN, 0};
  return !process || (::poll(&entry, 1, 0) > 0 && entry.revents != 0);
}

/// Whether the process is stopped by a signal, or held by a debugger.
bool is_stopped(pid_t process) {
  const char state = state_of(process).letter;
  return state == 'T' || state == 't';
}

bool is_asked_for(int rank, const std::vector<int>& among) {
  return among.empty() || std::find(among.begin(), among.end(), rank) != among.end();
}

}  // namespace

Presence::Presence(const std::string& job, int rank, int size, const std::string& folder,
                   int on_machine)
    : job_(job),
      rank_(rank),
      size_(size),
      on_machine_(on_machine),
      pid_files_(folder, job, rank),
      creations_(folder, job, rank) {
  const base::Lock lock(mutex_);
  try_to([&]() TUTTI_REQUIRES(mutex_) { listener_ = net::listen_abstract(name_of(rank_)); });
  // The others would take a process that calls them but does not listen for one that leaves.
  if (listener_) call_others();
}

std::string Presence::name_of(int rank) const {
  return fmt::format("tutti-present-{}-{}-{}", ::geteuid(), job_, rank);
}

void Presence::call_others() {
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    try_to([&]() TUTTI_REQUIRES(mutex_) {
      const net::AbstractPeer peer = net::connect_abstract(name_of(other));
      if (peer.reached != net::Reached::connected) return;
      const auto mine = static_cast<std::int32_t>(rank_);
      ::send(peer.socket.get(), &mine, sizeof mine, MSG_NOSIGNAL);
      take_in(peer.socket, other);
    });
  }
}

void Presence::take_in_callers() {
  if (!listener_) return;
  try_to([&]() TUTTI_REQUIRES(mutex_) {
    while (const base::Fd caller = net::accept_one(listener_)) {
      std::int32_t rank = -1;
      if (::recv(caller.get(), &rank, sizeof rank, 0) != sizeof rank) continue;
      if (rank >= 0 && rank < size_ && rank != rank_) take_in(caller, rank);
    }
  });
}

void Presence::take_in(const base::Fd& socket, int rank) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  // A process of another pid name space has no number here.
  if (peer.uid != ::geteuid() || peer.pid <= 0 || mates_.contains(rank)) return;
  base::Fd process = base::watch_process(peer.pid);
  if (process || errno == ESRCH) mates_.emplace(rank, Mate{std::move(process), peer.pid, 0});
}

/// A process that has ended does not answer a call. Only its file tells that it has ended.
void Presence::look_for_ended() {
  for (int other = 0; other < size_; ++other) {
    if (other == rank_ || mates_.contains(other) || !pid_files_.has_ended(other)) continue;
    mates_.emplace(other, Mate{});
  }
}

void Presence::count_stops() {
  for (auto& [rank, mate] : mates_) {
    mate.beats_stopped = mate.process && is_stopped(mate.id) ? mate.beats_stopped + 1 : 0;
  }
}

std::optional<Presence::Lost> Presence::stopped_for_long(base::Clock::duration limit,
                                                         base::Clock::duration slack,
                                                         const std::vector<int>& among) const {
  for (const auto& [rank, mate] : mates_) {
    if (!is_asked_for(rank, among)) continue;
    if (mate.beats_stopped * beat < std::max<base::Clock::duration>(limit - slack, 2 * beat)) {
      continue;
    }
    return Lost{{rank, fmt::format("its process, {}, has been stopped for {}", mate.id,
                                   base::heartbeat_limit(limit))},
                true};
  }
  return std::nullopt;
}

/// The process may have ended because it lost another one, which had ended before, is stopped or
/// leaves.
Presence::Lost Presence::cause_of_end(int rank, const std::vector<int>& among) const {
  auto other = pid_files_.lost_to(rank);
  if (other && other->rank != rank_ && is_asked_for(other->rank, among)) return {*other};
  return {{rank, "its process ended"}};
}

std::optional<Presence::Lost> Presence::find_lost(std::chrono::milliseconds stopped_for,
                                                  const std::vector<int>& among) const {
  // This comes first, because other processes may have ended because of the stopped one.
  if (auto stopped = stopped_for_long(stopped_for, {}, among)) return stopped;
  for (const auto& [rank, mate] : mates_) {
    if (!is_asked_for(rank, among) || !has_ended(mate.process)) continue;
    // The process that ended may have counted some beats more than this one, so allow a shorter
    // stop.
    if (auto stopped = stopped_for_long(stopped_for, 3 * beat, among)) return stopped;
    return cause_of_end(rank, among);
  }
  return std::nullopt;
}

void Presence::note(const FailedRank& lost) {
  const base::Lock lock(mutex_);
  note_locked(lost);
}

void Presence::note_locked(const FailedRank& lost) {
  if (!std::exchange(has_noted_, true)) pid_files_.note_lost(lost);
}

std::optional<Presence::Lost> Presence::poll_lost(std::chrono::milliseconds stopped_for,
                                                  const std::vector<int>& among) {
  const base::Lock lock(mutex_);
  take_in_callers();
  if (const auto now = base::Clock::now(); now >= next_beat_) {
    next_beat_ = now + beat;
    look_for_ended();
    count_stops();
  }
  auto lost = find_lost(stopped_for, among);
  if (lost) note_locked(*lost);
  return lost;
}

bool Presence::listens(int rank) const {
  bool somebody = true;
  try_to([&] { somebody = net::connect_abstract(name_of(rank)).reached != net::Reached::nobody; });
  return somebody;
}

std::optional<FailedRank> Presence::poll_leaving(const std::vector<int>& among) {
  const base::Lock lock(mutex_);
  const auto now = base::Clock::now();
  if (now < next_call_) return std::nullopt;
  next_call_ = now + beat;
  for (const auto& [rank, mate] : mates_) {
    if (!is_asked_for(rank, among) || listens(rank)) continue;
    FailedRank leaving{rank, "it ends, and has left MPI"};
    note_locked(leaving);
    return leaving;
  }
  return std::nullopt;
}

bool Presence::has_yet_to_come(int rank) {
  const base::Lock lock(mutex_);
  take_in_callers();
  return on_machine_ == size_ && rank != rank_ && !mates_.contains(rank) &&
         !pid_files_.has_come(rank);
}

Presence::Roll Presence::call() {
  const base::Lock lock(mutex_);
  take_in_callers();
  Roll roll;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const auto mate = mates_.find(rank);
    if (mate == mates_.end()) {
      roll.unseen.push_back(rank);
    } else if (has_ended(mate->second.process)) {
      roll.ended.push_back(rank);
    } else if (is_stopped(mate->second.id)) {
      roll.stopped.push_back(rank);
    } else {
      (listens(rank) ? roll.running : roll.leaving).push_back(rank);
    }
  }
  return roll;
}

void Presence::leave() {
  const base::Lock lock(mutex_);
  // The socket is shut down rather than closed. A forked child may have a copy, which would still
  // listen.
  if (listener_) ::shutdown(listener_.get(), SHUT_RDWR);
}

}  // namespace tutti::control
