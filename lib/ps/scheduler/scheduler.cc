// The process that brings a job together.
#include "ps/scheduler/scheduler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string_view>

#include "base/log.h"
#include "base/printable.h"
#include "base/termination.h"
#include "net/heartbeat.h"
#include "net/interfaces.h"
#include "net/reception.h"
#include "net/sockets.h"
#include "ps/link/address_choice.h"
#include "ps/link/channel.h"
#include "ps/link/scheduler_link.h"
#include "ps/protocol/wire.h"
#include "ps/scheduler/stores.h"

namespace tutti::ps {
namespace {

using base::Clock;
using namespace std::chrono_literals;

// Nodes count from 1.
constexpr std::uint64_t scheduler_reception_token = 0;
constexpr std::uint64_t scheduler_signal_token = std::uint64_t{1} << 63;
constexpr std::uint64_t notices_token = scheduler_signal_token + 1;

/// The id is never 0.
std::uint64_t new_id() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random() | 1;
}

std::string place_to_listen(const Job& job, const std::string& interface) {
  const std::vector<std::string> addresses = net::resolve(job.root);
  const std::string preferred =
      interface.empty() ? "" : net::reachable_addresses(interface).front();
  std::string address = listening_address(job.root, addresses, preferred, job.has_secret);
  if (address != preferred && address != addresses.front()) {
    base::log().info("here {} leads to {} alone, so the scheduler listens at all addresses",
                     base::printable(job.root, 256), addresses.front());
  }
  return address;
}

/// Takes the port that the process which has started this one has kept for it.
base::Fd take_over_listener(const Job& job) {
  base::Fd listener = net::adopt_listener(job.listener);
  check_may_use(job, net::local_address(listener));
  return listener;
}

base::Fd listen(const Job& job, const std::string& interface) {
  if (job.listener >= 0) return take_over_listener(job);
  const std::string address = place_to_listen(job, interface);
  check_may_use(job, address);
  try {
    return net::listen_tcp(address, job.port);
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the scheduler cannot listen at DMLC_PS_ROOT_URI={} and "
                            "DMLC_PS_ROOT_PORT={}: {}; the address must be this host's and the "
                            "port free",
                            base::printable(job.root, 256), job.port, error.what()));
  }
}

class Scheduler {
 public:
  Scheduler(const Job& job, const Options& options)
      : listener_(listen(job, options.interface)),
        reception_(listener_,
                   {.rank = static_cast<int>(Role::scheduler),
                    .secret = job.secret,
                    .purpose = scheduler_purpose,
                    .name = "the scheduler",
                    .encrypts = options.encrypt},
                   audience(job.size)),
        heartbeat_(job.heartbeat(options)),
        silence_limit_(job.silence_limit(options)),
        ticker_(heartbeat_.beat),
        patience_(options.create_timeout),
        stall_report_after_(options.stall_report_after),
        key_timeout_(options.key_timeout),
        terms_(Channel::Terms::of(job)),
        notices_(job.notices()),
        stores_(
            job.size, job.big_count,
            [this](Stores::Node node, const FromScheduler& message) {
              const auto it = links_.find(node);
              if (it != links_.end()) it->second->send(encode(message));
            },
            new_id) {
    if (!job.has_secret) {
      base::log().warn(
          "the job has no TUTTI_JOB_KEY: it stays on this machine, and only processes of this "
          "user can join it");
    }
    poller_.add(reception_.descriptor(), scheduler_reception_token);
    poller_.add(termination_.descriptor(), scheduler_signal_token);
    if (notices_.descriptor()) poller_.add(notices_.descriptor(), notices_token);
  }

  bool run();

 private:
  /// A node sends its role in place of a rank, because it has no rank yet.
  static net::Reception::Audience audience(const JobSize& size) {
    const auto expects = [](int role) {
      return role == static_cast<int>(Role::server) || role == static_cast<int>(Role::worker);
    };
    // A worker also has a connection for its process.
    return {expects, static_cast<std::size_t>(2 * size.workers + size.servers), true};
  }
  Clock::time_point wake_up_by() const;
  void on_event(std::uint64_t token);
  void hear_notices();
  void welcome();
  void hear(Stores::Node node);
  void beat();
  void look(Clock::time_point now);
  void look_at_gathering(Clock::time_point now);
  void look_at_beginning(Clock::time_point now);
  void look_at_barrier(Clock::time_point now);
  void flush();
  void close();

  base::Termination termination_;
  base::Fd listener_;
  net::Reception reception_;
  net::Heartbeat heartbeat_;
  const std::chrono::milliseconds silence_limit_;
  net::Ticker ticker_;
  const Clock::duration patience_;  ///< for nodes that have not come, and for servers that are away
  const Clock::duration stall_report_after_;
  const Clock::duration key_timeout_;  ///< for servers that have not begun, and for workers that
                                       ///< have not come to a barrier
  std::optional<Clock::time_point> gather_by_;  ///< while some have come to a store, or may come
  /// A wait of some processes for others.
  struct Wait {
    Clock::time_point since{};
    Clock::time_point report_at{};
    Clock::time_point until{};
  };
  bool is_too_long(std::optional<Wait>& wait, std::string_view who, const std::vector<int>& awaited,
                   Clock::time_point now) const;
  std::optional<Wait> beginning_;
  std::optional<Wait> barrier_;
  /// By rank of a server that is away: how long the others wait for it.
  std::map<int, Clock::time_point> away_until_;
  const Channel::Terms terms_;
  net::EndNotices notices_;  ///< heard until all have come
  net::Poller poller_;
  std::map<Stores::Node, std::unique_ptr<Channel>> links_;
  Stores::Node last_node_ = 0;
  Stores stores_;
};

Clock::time_point Scheduler::wake_up_by() const {
  Clock::time_point by = ticker_.next();
  if (const auto strangers = reception_.deadline()) by = std::min(by, *strangers);
  for (const auto* const wait : {&beginning_, &barrier_}) {
    if (*wait) by = std::min({by, (*wait)->report_at, (*wait)->until});
  }
  for (const auto& [node, link] : links_) by = std::min(by, link->due().value_or(by));
  return by;
}

bool Scheduler::run() {
  while (!stores_.is_over()) {
    const auto events = poller_.wait(wake_up_by());
    // This comes first, so that the job ends with the cause that the launcher tells, and not with a
    // consequence of it.
    hear_notices();
    for (const epoll_event& event : events) on_event(event.data.u64);
    welcome();
    if (ticker_.tick()) beat();
    look(Clock::now());
    stores_.advance();
    flush();
  }
  close();
  if (stores_.trouble().empty()) return true;
  base::log().error("the job ends: {}", stores_.trouble());
  return false;
}

void Scheduler::on_event(std::uint64_t token) {
  if (token == scheduler_signal_token) {
    stores_.stop("it was ended by SIGTERM");
  } else if (token != scheduler_reception_token && token != notices_token) {
    hear(token);
  }
}

void Scheduler::hear_notices() {
  if (!notices_.descriptor()) return;
  // Notices count until the job's first store has all its nodes. Later the memberships tell of
  // ended processes.
  Registry& store = stores_.current();
  for (const net::EndNotice& notice : notices_.heard()) store.note_end(failure_of(notice));
  if (!store.is_complete()) return;
  notices_.tell_complete();
  poller_.remove(notices_.descriptor());
  notices_.close();
}

/// Ends the waits whose time is up.
void Scheduler::look(Clock::time_point now) {
  look_at_gathering(now);
  const std::vector<int> away = stores_.current().servers_away();
  std::erase_if(away_until_,
                [&](const auto& one) { return std::ranges::find(away, one.first) == away.end(); });
  for (const int rank : away) {
    const auto it = away_until_.try_emplace(rank, now + patience_).first;
    if (now >= it->second) stores_.current().give_up_on_server(rank, patience_);
  }
  look_at_beginning(now);
  look_at_barrier(now);
}

/// Whether the wait has reached its limit. Before that, logs at doubling times that others wait for
/// these processes.
bool Scheduler::is_too_long(std::optional<Wait>& wait, std::string_view who,
                            const std::vector<int>& awaited, Clock::time_point now) const {
  if (!wait) wait = {now, now + stall_report_after_, now + key_timeout_};
  if (now >= wait->until) return true;
  if (now < wait->report_at) return false;
  const Clock::duration waited = now - wait->since;
  base::log().warn("{}{} {}: {:.0f} s so far", who, awaited.size() == 1 ? "" : "s",
                   fmt::join(awaited, ", "), std::chrono::duration<double>(waited).count());
  wait->report_at = now + std::max(waited, stall_report_after_);
  return false;
}

void Scheduler::look_at_gathering(Clock::time_point now) {
  if (!stores_.is_gathering()) return gather_by_.reset();
  if (!gather_by_) gather_by_ = now + patience_;
  if (now >= *gather_by_) stores_.give_up_waiting(patience_);
}

void Scheduler::look_at_beginning(Clock::time_point now) {
  Registry& store = stores_.current();
  const std::vector<int> awaited = store.servers_not_ready();
  if (store.has_begun() || awaited.empty()) return beginning_.reset();
  if (is_too_long(beginning_, "the job waits for what it begins with on server", awaited, now)) {
    store.give_up_beginning(key_timeout_);
  }
}

/// A worker can ask for the next barrier only after it has learnt that this one is over. While a
/// server is away, workers wait for it in their calls, so their time begins anew.
void Scheduler::look_at_barrier(Clock::time_point now) {
  Registry& store = stores_.current();
  const std::vector<int> awaited = store.awaited_in_barrier();
  if (awaited.empty()) return barrier_.reset();
  if (barrier_ && !store.servers_not_ready().empty()) barrier_->until = now + key_timeout_;
  if (!is_too_long(barrier_, "a barrier waits for worker", awaited, now)) return;
  store.give_up_barrier(key_timeout_);
  barrier_.reset();
}

void Scheduler::welcome() {
  for (net::ProvenPeer& peer : reception_.advance()) {
    const Stores::Node node = ++last_node_;
    auto link = std::make_unique<Channel>(
        poller_, node, Channel::Ends{"the scheduler", fmt::format("node {}", node)}, terms_);
    try {
      // A worker's process sends nothing, so the system checks whether its machine is still there.
      net::tune_data_link(peer.socket);
      net::tune_link(peer.socket, silence_limit_);
      link->connect(std::move(peer));
      links_.emplace(node, std::move(link));
    } catch (const Error& error) {
      base::log().warn("the scheduler closes a connection that has just come: {}", error.what());
    }
  }
}

void Scheduler::hear(Stores::Node node) {
  const auto it = links_.find(node);
  if (it == links_.end()) return;
  std::optional<std::string> ended;
  try {
    ended = it->second->receive(
        [&](net::ConstBytes bytes) { stores_.receive(node, decode_to_scheduler(bytes)); });
  } catch (const Error& error) {
    ended = error.what();
    base::log().warn("the scheduler closes the connection of {} at {}: {}", stores_.describe(node),
                     it->second->peer_address(), *ended);
  }
  if (!ended) return;
  links_.erase(it);
  stores_.lose(node, fmt::format("its connection to the scheduler ended: {}", *ended));
}

void Scheduler::beat() {
  std::vector<std::pair<Stores::Node, std::string>> silent;
  for (const auto& [node, link] : links_) {
    if (stores_.is_process(node)) continue;
    if (const auto why = link->beat(heartbeat_)) silent.emplace_back(node, *why);
  }
  for (const auto& [node, why] : silent) {
    links_.erase(node);
    stores_.lose(node, why + ", on its connection to the scheduler");
  }
}

void Scheduler::flush() {
  for (const auto& [node, link] : links_) link->flush();
}

void Scheduler::close() {
  const auto deadline = Clock::now() + 3s;
  // A worker's process reads this message when it creates a store again.
  std::erase_if(links_, [this](const auto& one) {
    if (stores_.is_process(one.first)) one.second->flush();
    return stores_.is_process(one.first);
  });
  for (const auto& [node, link] : links_) link->drain(deadline);
  for (const auto& [node, link] : links_) link->close_gracefully(deadline);
}

}  // namespace

bool run_scheduler(const Job& job, const Options& options) {
  return Scheduler(job, options).run();
}

}  // namespace tutti::ps
