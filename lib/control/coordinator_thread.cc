#include "control/coordinator_thread.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "control/wake.h"
#include "coordinator/wire.h"

namespace tutti::control {
namespace {

constexpr auto beat_time = std::chrono::seconds(1);
/// What the poller watches beside the links, whose ids are their indices.
constexpr std::uint64_t upward_id = 1'000'000;

}  // namespace

CoordinatorThread::CoordinatorThread(const topology::Topology& topology, Mailbox* boxes,
                                     const base::Fd& upward,
                                     std::vector<std::pair<int, Link>> links,
                                     const coordinator::Settings& settings,
                                     std::chrono::milliseconds heartbeat_timeout)
    : topology_(topology),
      boxes_(boxes),
      upward_(upward),
      coordinator_(topology.size, settings),
      most_missed_(static_cast<int>(heartbeat_timeout / beat_time) + 1) {
  poller_.add(upward_, upward_id);
  for (auto& [leader, link] : links) peers_.push_back({leader, std::move(link)});
  for (std::size_t i = 0; i < peers_.size(); ++i) peers_[i].link.watch(poller_, i);
  for (int local = 0; local < topology.local_size(); ++local) {
    up_.emplace_back(boxes[local].up);
    down_.emplace_back(boxes[local].down);
  }
  thread_ = base::NamedThread("tutti-coord", [this] { run(); });
}

CoordinatorThread::~CoordinatorThread() {
  stopping_ = true;
  wake(upward_);
  thread_.join();
}

void CoordinatorThread::run() {
  try {
    serve();
  } catch (const std::exception& error) {
    base::log().error("the coordinator failed: {}", error.what());
    const std::string reason = fmt::format("rank 0's coordinator failed: {}", error.what());
    post({coordinator::everyone, coordinator::LostRank{0, reason}});
  }
  for (Peer& peer : peers_) {
    if (!peer.down) peer.link.seal_and_send(true);
  }
}

void CoordinatorThread::serve() {
  auto next_beat = base::Clock::now() + beat_time;
  while (!stopping_ || !over()) {
    auto deadline = peers_.empty() ? base::Clock::now() + std::chrono::hours(1) : next_beat;
    if (const auto due = coordinator_.next_tick()) deadline = std::min(deadline, start_ + *due);
    for (const std::uint64_t id : poller_.wait(deadline)) {
      if (id == upward_id) {
        drain(upward_);
        read_node();
      } else {
        read_link(peers_[id]);
      }
    }
    coordinator_.tick(now());
    answer();
    if (!peers_.empty() && base::Clock::now() >= next_beat) {
      beat();
      next_beat = base::Clock::now() + beat_time;
    }
  }
}

void CoordinatorThread::hand_over(int from, std::span<const std::byte> message) {
  const auto decoded = coordinator::decode_to_coordinator(message);
  any_lost_ = any_lost_ || std::holds_alternative<coordinator::LostRank>(decoded);
  coordinator_.receive(from, decoded);
}

void CoordinatorThread::read_node() {
  std::vector<std::byte> message;
  for (std::size_t local = 0; local < up_.size(); ++local) {
    while (up_[local].receive(message)) hand_over(topology_.local_ranks()[local], message);
    if (up_[local].writer_wants_waking()) boxes_[local].doorbell.ring();
    if (down_[local].flush()) boxes_[local].doorbell.ring();
  }
}

void CoordinatorThread::read_link(Peer& peer) {
  if (peer.down) return;
  std::vector<Letter> letters;
  bool open = false;
  try {
    open = peer.link.receive(letters);
  } catch (const Error& error) {
    return drop(peer, error.what());
  }
  peer.missed = 0;
  for (const Letter& letter : letters) {
    const auto rank = static_cast<std::size_t>(letter.rank);
    const bool theirs =
        letter.rank >= 0 && letter.rank < topology_.size &&
        topology_.node_of[rank] == topology_.node_of[static_cast<std::size_t>(peer.leader)];
    if (!theirs) return drop(peer, fmt::format("it spoke for rank {}", letter.rank));
    hand_over(letter.rank, letter.message);
  }
  if (!open) drop(peer, "its connection was closed");
}

void CoordinatorThread::beat() {
  for (Peer& peer : peers_) {
    if (peer.down) continue;
    if (++peer.missed > most_missed_) {
      drop(peer, fmt::format("nothing came from it for {} s", peer.missed));
    } else if (!peer.link.seal_and_send()) {
      drop(peer, "its connection broke");
    }
  }
  answer();
}

void CoordinatorThread::drop(Peer& peer, const std::string& reason) {
  if (std::exchange(peer.down, true)) return;
  poller_.remove(peer.link.socket());
  if (peer.link.farewell()) return;
  any_lost_ = true;
  coordinator_.lost(peer.leader, fmt::format("rank {}, the leader of its node, is lost: {}",
                                             peer.leader, reason));
}

void CoordinatorThread::answer() {
  for (const std::string& notice : coordinator_.take_notices()) base::log().warn("{}", notice);
  for (const coordinator::Outgoing& outgoing : coordinator_.take_messages()) post(outgoing);
  for (Peer& peer : peers_) {
    if (!std::exchange(peer.dirty, false) || peer.down) continue;
    if (!peer.link.seal_and_send()) drop(peer, "its connection broke");
  }
}

void CoordinatorThread::post(const coordinator::Outgoing& outgoing) {
  const auto message = coordinator::encode(outgoing.message);
  const bool all = outgoing.to == coordinator::everyone;
  for (std::size_t local = 0; local < down_.size(); ++local) {
    if (!all && outgoing.to != topology_.local_ranks()[local]) continue;
    if (down_[local].send(message)) boxes_[local].doorbell.ring();
  }
  for (Peer& peer : peers_) {
    const auto node = [&](int rank) { return topology_.node_of[static_cast<std::size_t>(rank)]; };
    if (peer.down || (!all && node(outgoing.to) != node(peer.leader))) continue;
    peer.link.add(all ? to_everyone : outgoing.to, message);
    peer.dirty = true;
  }
}

}  // namespace tutti::control
