#include "ps/link/scheduler_link.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/failure.h"
#include "base/host.h"
#include "base/log.h"
#include "base/wait_limits.h"
#include "net/interfaces.h"
#include "net/sockets.h"
#include "ps/protocol/wire.h"

namespace tutti::ps {
namespace {

using base::Clock;
using namespace std::chrono_literals;

constexpr std::string_view scheduler_title = "scheduler";

std::string describe(const Job& job) {
  if (job.wanted_rank < 0) return fmt::format("this {}", name(job.role));
  return fmt::format("{} {}", name(job.role), job.wanted_rank);
}

bool is_stranger(const Error& error) {
  return dynamic_cast<const net::NotOfThisJob*>(&error) != nullptr;
}

}  // namespace

void throw_failure(const Failure& failure) {
  throw Error(failure.code, failure.text, {.key = {}, .ranks = failure.ranks});
}

Failure failure_of(const Lost& lost) {
  std::vector<int> ranks;
  if (lost.role == Role::worker) ranks.push_back(lost.rank);
  return {ErrorCode::peer_lost,
          lost.role == Role::scheduler
              ? fmt::format("the scheduler is lost: {}", lost.reason)
              : fmt::format("{} {} is lost: {}", name(lost.role), lost.rank, lost.reason),
          std::move(ranks)};
}

Failure failure_of(const net::EndNotice& notice) {
  std::vector<int> ranks;
  if (notice.worker >= 0) ranks.push_back(notice.worker);
  return {ErrorCode::peer_lost,
          fmt::format("{}{} is lost: {}; a store needs all processes of the job",
                      notice.title == scheduler_title ? "the " : "", notice.title, notice.text),
          std::move(ranks)};
}

void check_may_use(const Job& job, const std::string& address) {
  if (job.has_secret || net::is_loopback(address)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("without TUTTI_JOB_KEY a job stays on this machine's loopback interface, "
                          "and {} is not on it; give all processes the same key, 64 digits 0-9a-f, "
                          "or let scripts/launch.py do it",
                          address));
}

namespace {

std::vector<net::Candidate> candidates_for(const Job& job, const std::string& source) {
  std::vector<net::Candidate> candidates;
  for (const std::string& address : net::resolve(job.root)) {
    check_may_use(job, address);
    candidates.push_back(net::start_candidate(address, job.port, source));
  }
  return candidates;
}

}  // namespace

SchedulerLink::SchedulerLink(const Job& job, const Options& options, net::Poller& poller,
                             std::uint64_t token, const std::function<void()>& look)
    : scheduler_(job.describe_scheduler()),
      role_(job.role),
      poller_(poller),
      heartbeat_(job.heartbeat(options)),
      deadline_(Clock::now() + options.create_timeout),
      create_timeout_(options.create_timeout),
      begin_timeout_(options.key_timeout),
      notices_(job.notices()),
      ticker_(heartbeat_.beat),
      bell_(net::EpollBell::make_descriptor(), asleep_) {
  net::ProvenPeer peer = connect(job, options, look);
  net::tune_link(peer.socket, job.silence_limit(options));
  local_address_ = net::local_address(peer.socket);
  const base::Lock lock(mutex_);
  link_.emplace(poller, token, Channel::Ends{describe(job), scheduler_}, Channel::Terms::of(job));
  link_->connect(std::move(peer));
}

/// As long as no worker waits, other ends do not concern a server. The scheduler knows whether one
/// waits.
void SchedulerLink::check_ends() {
  const auto& ended = notices_.heard();
  const bool has_scheduler_ended =
      std::ranges::find(ended, scheduler_title, &net::EndNotice::title) != ended.end();
  if (ended.empty() || (role_ == Role::server && !has_scheduler_ended)) return;
  throw_failure(failure_of(ended.front()));
}

/// Waits. If the launcher tells of an ended process, the wait is over at once.
void SchedulerLink::pause_for(Clock::duration time) {
  if (!notices_.descriptor()) return std::this_thread::sleep_for(time);
  net::wait_readable(notices_.descriptor(), Clock::now() + time);
  check_ends();
}

/// The scheduler may not listen yet, and nothing tells when it does. So this tries again and again.
net::ProvenPeer SchedulerLink::connect(const Job& job, const Options& options,
                                       const std::function<void()>& look) {
  const std::string source =
      options.interface.empty() ? "" : net::reachable_addresses(options.interface).front();
  const net::Identity me{.rank = static_cast<int>(job.role),
                         .secret = job.secret,
                         .purpose = scheduler_purpose,
                         .name = describe(job),
                         .name_of_listener = scheduler_,
                         .encrypts = options.encrypt};
  const base::Patience patience(deadline_, [&] {
    if (look) or_word_of_end(look);
    check_ends();
  });
  const auto begun = Clock::now();
  Clock::duration report_after = options.stall_report_after;
  bool met_stranger = false;
  for (Clock::duration pause = 10ms;; pause = std::min<Clock::duration>(2 * pause, 500ms)) {
    try {
      return net::prove_to(candidates_for(job, source), me, static_cast<int>(Role::scheduler),
                           patience);
    } catch (const Error& error) {
      patience.look_now();
      // A stranger may listen there. It may go, and let the scheduler listen.
      const bool may_come = error.code() == ErrorCode::peer_lost;
      const bool is_news = is_stranger(error) && !met_stranger;
      met_stranger = met_stranger || is_news;
      const Clock::duration waited = Clock::now() - begun;
      if (may_come && (waited >= report_after || is_news)) {
        base::log().warn("{} has waited {:.0f} s for {}: {}", me.name,
                         std::chrono::duration<double>(waited).count(), scheduler_, error.what());
        report_after = std::max(report_after, 2 * waited);
      }
      if (may_come && Clock::now() + pause < deadline_) {
        pause_for(pause);
        continue;
      }
      const bool is_late = may_come || error.code() == ErrorCode::timeout;
      const std::string limit = base::create_limit(options.create_timeout);
      throw Error(
          may_come ? ErrorCode::timeout : error.code(),
          fmt::format("{} Is it running, and has it the same TUTTI_JOB_KEY and TUTTI_ENCRYPT?{}",
                      error.what(), is_late ? fmt::format(" (The wait is {}.)", limit) : ""));
    }
  }
}

SchedulerLink::~SchedulerLink() {
  beat_here();
}

void SchedulerLink::send(const ToScheduler& message) {
  const base::Lock lock(mutex_);
  link_->send(encode(message));
}

void SchedulerLink::flush() {
  const base::Lock lock(mutex_);
  link_->flush();
}

std::optional<Clock::time_point> SchedulerLink::due() const {
  const base::Lock lock(mutex_);
  return link_->due();
}

void SchedulerLink::receive(const std::function<void(const FromScheduler&)>& take) {
  std::vector<FromScheduler> messages = std::exchange(early_, {});
  std::optional<std::string> ended;
  {
    const base::Lock lock(mutex_);
    ended = link_->receive(
        [&](net::ConstBytes bytes) { messages.push_back(decode_from_scheduler(bytes)); });
  }
  for (const FromScheduler& message : messages) {
    note(message);
    take(message);
  }
  if (ended && !over_)
    throw Error(ErrorCode::peer_lost, fmt::format("{} is lost: {}", scheduler_, *ended));
}

bool SchedulerLink::has_ended() const {
  const base::Lock lock(mutex_);
  return !link_->is_open();
}

void SchedulerLink::note(const FromScheduler& message) {
  // From now on the scheduler tells of ended processes.
  notices_.close();
  over_ = over_ || std::holds_alternative<Over>(message) ||
          (role_ == Role::worker && std::holds_alternative<End>(message));
  another_ = another_ || std::holds_alternative<Another>(message);
}

Clock::time_point SchedulerLink::next_beat() const {
  const base::Lock lock(mutex_);
  return ticker_.next();
}

void SchedulerLink::beat() {
  const base::Lock lock(mutex_);
  if (!ticker_.tick() || over_) return;
  if (const auto ended = link_->beat(heartbeat_)) {
    throw Error(ErrorCode::peer_lost, fmt::format("{} is lost: {}", scheduler_, *ended));
  }
}

void SchedulerLink::beat_apart() {
  heart_ = base::NamedThread("tutti-ps-beat", [this] { show_life_until_stopped(); });
}

void SchedulerLink::beat_here() {
  stops_ = true;
  bell_.ring();
  heart_.join();
  stops_ = false;
}

/// Sends heartbeats when the owner is late with them.
void SchedulerLink::show_life_until_stopped() noexcept {
  const Clock::duration late = heartbeat_.beat / 4;
  for (Clock::time_point at = next_beat() + late;;) {
    bell_.arm();
    if (stops_) return;
    if (net::wait_readable(bell_.descriptor(), at)) bell_.silence();
    const auto now = Clock::now();
    const base::Lock lock(mutex_);
    if (now >= ticker_.next() + late) {
      link_->show_life();
      at = now + heartbeat_.beat;
    } else {
      at = ticker_.next() + late;
    }
  }
}

Welcome SchedulerLink::join(Register said, const std::function<void()>& look) {
  said.host = base::host_name();
  said.host_identity = base::host_identity();
  said.process = ::getpid();
  send(said);
  return or_word_of_end([&] { return wait_for_welcome(said.asynchronous, look); });
}

void SchedulerLink::await_word_of_end() {
  if (notices_.descriptor() && notices_.heard().empty()) {
    net::wait_readable(notices_.descriptor(), Clock::now() + 1s);
  }
  check_ends();
}

Welcome SchedulerLink::wait_for_welcome(bool asynchronous, const std::function<void()>& look) {
  std::optional<Welcome> welcome;
  // The scheduler gives up at its own deadlines, and then says which processes are missing. A
  // server waits for that for any time, because the workers may want no other store for hours.
  std::string limit = base::create_limit(create_timeout_);
  auto deadline = role_ == Role::server ? Clock::time_point::max() : deadline_ + 5s;
  while (!welcome) {
    flush();
    poller_.wait(std::min({deadline, next_beat(), due().value_or(deadline)}));
    if (look) look();
    beat();
    receive([&](const FromScheduler& message) {
      if (welcome) return early_.push_back(message);
      if (const auto* const refused = std::get_if<Refused>(&message))
        throw_failure(refused->failure);
      if (std::holds_alternative<Over>(message)) {
        throw Error(ErrorCode::aborted, "all workers ended before they created another store");
      }
      // An asynchronous worker goes on without other workers. It hears of their losses again after
      // its welcome.
      const auto* const lost = std::get_if<Lost>(&message);
      const bool ends = lost != nullptr && !(asynchronous && lost->role == Role::worker);
      if (ends) throw_failure(failure_of(*lost));
      const bool has_gathered = std::holds_alternative<Gathered>(message);
      if (has_gathered) {
        limit = base::key_limit(begin_timeout_);
        deadline = Clock::now() + begin_timeout_ + 5s;
      }
      if (const auto* const met = std::get_if<Welcome>(&message)) welcome = *met;
    });
    if (Clock::now() >= deadline) {
      throw Error(ErrorCode::timeout,
                  fmt::format("{} did not answer within {}", scheduler_, limit));
    }
  }
  return *std::move(welcome);
}

void SchedulerLink::close() {
  const auto deadline = Clock::now() + 3s;
  const base::Lock lock(mutex_);
  link_->drain(deadline);
  link_->close_gracefully(deadline);
}

/// Does not take the lock, because the other thread may have held it at the fork.
void SchedulerLink::abandon() {
  heart_.abandon();
  link_->abandon();
}

}  // namespace tutti::ps
