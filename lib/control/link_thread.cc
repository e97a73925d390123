#include "control/link_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "control/wake.h"
#include "coordinator/wire.h"

namespace tutti::control {
namespace {

constexpr auto tick = std::chrono::seconds(1);
/// Ids of what the poller watches; below them, local indices of processes.
constexpr std::uint64_t stop_id = 1'000'000;
constexpr std::uint64_t upward_id = 1'000'001;
constexpr std::uint64_t link_id = 1'000'002;

}  // namespace

LinkThread::LinkThread(const topology::Topology& topology, Duties duties)
    : topology_(topology),
      duties_(std::move(duties)),
      most_missed_(static_cast<int>(duties_.heartbeat_timeout / tick) + 1),
      stop_(make_wake()),
      pulses_(static_cast<std::size_t>(topology.local_size())),
      gone_(pulses_.size(), false) {
  poller_.add(stop_, stop_id);
  for (int local = 0; local < topology.local_size(); ++local) {
    if (local == topology.local_index()) continue;
    poller_.add((*duties_.pidfds)[static_cast<std::size_t>(local)],
                static_cast<std::uint64_t>(local));
  }
  if (duties_.to_rank_0) {
    poller_.add(*duties_.upward, upward_id);
    duties_.to_rank_0->watch(poller_, link_id);
    for (int local = 0; local < topology.local_size(); ++local) {
      up_.emplace_back(duties_.boxes[local].up);
      down_.emplace_back(duties_.boxes[local].down);
    }
  }
  thread_ = base::NamedThread("tutti-link", [this] { run(); });
}

LinkThread::~LinkThread() {
  stopping_ = true;
  wake(stop_);
  thread_.join();
}

void LinkThread::run() {
  try {
    auto next_beat = base::Clock::now() + tick;
    while (!stopping_ || needed()) {
      for (const std::uint64_t id : poller_.wait(next_beat)) {
        if (id == stop_id) drain(stop_);
        if (id == upward_id) pass_up();
        if (id == link_id) pass_down();
        if (id < stop_id) process_ended(static_cast<int>(id));
      }
      if (base::Clock::now() < next_beat) continue;
      beat();
      next_beat = base::Clock::now() + tick;
    }
    if (duties_.to_rank_0 && !link_down_) duties_.to_rank_0->seal_and_send(true);
  } catch (const std::exception& error) {
    duties_.on_loss(topology_.rank,
                    fmt::format("rank {}'s link thread failed: {}", topology_.rank, error.what()));
  }
}

void LinkThread::beat() {
  duties_.boxes[topology_.local_index()].heartbeat.fetch_add(1);
  for (int local = 0; local < topology_.local_size(); ++local) {
    if (local != topology_.local_index()) check_pulse(local);
  }
  if (!duties_.to_rank_0 || link_down_) return;
  if (!duties_.to_rank_0->seal_and_send()) link_lost("the connection to rank 0 broke");
  if (++link_pulse_.missed > most_missed_) {
    link_lost(fmt::format("nothing came from rank 0 for {} s", link_pulse_.missed));
  }
}

void LinkThread::check_pulse(int local) {
  const auto index = static_cast<std::size_t>(local);
  const Mailbox& box = duties_.boxes[local];
  if (gone_[index] || box.departed.load() != 0) return;
  Pulse& pulse = pulses_[index];
  const std::uint64_t now = box.heartbeat.load();
  if (now != std::exchange(pulse.seen, now)) pulse.missed = 0;
  if (++pulse.missed > most_missed_) {
    lose(local, fmt::format("hangs: its heartbeat is missing for {} s", pulse.missed));
  }
}

void LinkThread::process_ended(int local) {
  poller_.remove((*duties_.pidfds)[static_cast<std::size_t>(local)]);
  if (duties_.boxes[local].departed.load() == 0) lose(local, "died: its process has ended");
  gone_[static_cast<std::size_t>(local)] = true;
}

void LinkThread::lose(int local, const std::string& reason) {
  gone_[static_cast<std::size_t>(local)] = true;
  const int rank = topology_.local_ranks()[static_cast<std::size_t>(local)];
  duties_.on_loss(rank, fmt::format("rank {} {}", rank, reason));
}

bool LinkThread::all_local_gone() const {
  for (int local = 0; local < topology_.local_size(); ++local) {
    if (!gone_[static_cast<std::size_t>(local)] && duties_.boxes[local].departed.load() == 0) {
      return false;
    }
  }
  return true;
}

void LinkThread::pass_up() {
  drain(*duties_.upward);
  if (link_down_) return;
  std::vector<std::byte> message;
  bool any = false;
  for (std::size_t local = 0; local < up_.size(); ++local) {
    while (up_[local].receive(message)) {
      duties_.to_rank_0->add(topology_.local_ranks()[local], message);
      any = true;
    }
    if (up_[local].writer_wants_waking()) duties_.boxes[local].doorbell.ring();
    if (down_[local].flush()) duties_.boxes[local].doorbell.ring();
  }
  if (any && !duties_.to_rank_0->seal_and_send()) link_lost("the connection to rank 0 broke");
}

void LinkThread::pass_down() {
  std::vector<Letter> letters;
  const bool open = duties_.to_rank_0->receive(letters);
  link_pulse_.missed = 0;
  for (const Letter& letter : letters) {
    for (std::size_t local = 0; local < down_.size(); ++local) {
      const int rank = topology_.local_ranks()[local];
      if (letter.rank != to_everyone && letter.rank != rank) continue;
      if (down_[local].send(letter.message)) duties_.boxes[local].doorbell.ring();
    }
  }
  if (!open) link_lost("the connection to rank 0 was closed");
}

void LinkThread::link_lost(const std::string& reason) {
  if (std::exchange(link_down_, true)) return;
  poller_.remove(duties_.to_rank_0->socket());
  if (duties_.to_rank_0->farewell() || all_local_gone()) return;
  tell_node_of_loss(0, fmt::format("rank 0 is lost: {}", reason));
}

void LinkThread::tell_node_of_loss(int rank, const std::string& reason) {
  const auto message =
      coordinator::encode(coordinator::ToRank{coordinator::LostRank{rank, reason}});
  for (std::size_t local = 0; local < down_.size(); ++local) {
    if (down_[local].send(message)) duties_.boxes[local].doorbell.ring();
  }
}

}  // namespace tutti::control
