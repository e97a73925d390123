#include "control/link.h"

#include <fmt/format.h>

#include <utility>

#include "control/contain.h"

namespace tutti::control {
namespace {

// Tokens of epoll events. A local index is the token of a process; these two are larger than any.
constexpr std::uint64_t bell_of_link = std::uint64_t{1} << 32;
constexpr std::uint64_t uplink_token = bell_of_link + 1;

}  // namespace

Link::Link(Parts parts)
    : parts_(std::move(parts)), checks_(parts_.processes.size()), ticker_(parts_.heartbeat.beat) {
  poller_.add(parts_.bell.descriptor(), bell_of_link);
  const auto me = static_cast<std::size_t>(parts_.topology.local_index());
  for (std::size_t i = 0; i < parts_.processes.size(); ++i) {
    if (i != me) poller_.add(parts_.processes[i], i);
  }
  if (parts_.rank0) {
    uplink_ =
        std::make_unique<Uplink>(parts_.topology, parts_.segment, parts_.board, parts_.departures,
                                 std::move(*parts_.rank0), poller_, uplink_token);
  }
  thread_.emplace("tutti-link", [this] { run(); });
}

Link::~Link() {
  stop_ = true;
  parts_.bell.ring();
  thread_->join();
}

void Link::abandon() {
  thread_->abandon();
  if (uplink_) uplink_->abandon();
}

void Link::run() noexcept {
  contain(parts_.board, parts_.topology.rank, "tutti-link", [this] { loop(); });
  // The link is closed even after a failure, so that rank 0 learns of it.
  uplink_.reset();
}

void Link::loop() {
  for (;;) {
    parts_.bell.arm();
    if (stop_) break;
    if (uplink_) uplink_->work();
    for (const epoll_event& event : poller_.wait(ticker_.next())) on_event(event.data.u64);
    if (ticker_.tick()) beat();
  }
  const RankSlot& mine = parts_.segment.slot(parts_.topology.local_index());
  if (mine.departed.load() == 0) {
    parts_.board.report(parts_.topology.rank, "it gave up the store without leaving it");
  }
  if (uplink_) uplink_->say_goodbye();
}

void Link::on_event(std::uint64_t token) {
  if (token == bell_of_link) {
    parts_.bell.silence();
  } else if (token == uplink_token) {
    uplink_->on_event();
  } else {
    poller_.remove(parts_.processes[token]);
    const int local_index = static_cast<int>(token);
    if (parts_.segment.slot(local_index).departed.load() != 0) return;
    parts_.board.report(parts_.topology.local_ranks()[token],
                        "its process ended without leaving the store");
  }
}

void Link::beat() {
  const int me = parts_.topology.local_index();
  parts_.segment.slot(me).heartbeat.fetch_add(1, std::memory_order_relaxed);
  for (int i = 0; i < parts_.segment.local_size(); ++i) {
    RankSlot& slot = parts_.segment.slot(i);
    const auto at = static_cast<std::size_t>(i);
    const int missed = checks_[at].count_missed(slot.heartbeat.load(std::memory_order_relaxed));
    if (i == me || missed != parts_.heartbeat.most_missed || slot.departed.load() != 0) continue;
    parts_.board.report(
        parts_.topology.local_ranks()[at],
        fmt::format("{} heartbeats of it are missing: its process is stopped or does not get to "
                    "run for {}",
                    missed, parts_.heartbeat.limit));
  }
  if (uplink_) uplink_->beat(parts_.heartbeat);
}

}  // namespace tutti::control
