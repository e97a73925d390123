#include "launch_world.h"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::shm::test {
namespace {

using Launch = LaunchLog::Launch;
using Kind = LaunchLog::Kind;

std::string text_of(Launch launch) {
  return fmt::format("{} of chunk {}", launch.kind == Kind::scatter ? "the scatter" : "the gather",
                     launch.chunk);
}

Launch scatter(int chunk) {
  return {static_cast<std::uint64_t>(chunk), Kind::scatter};
}
Launch gather(int chunk) {
  return {static_cast<std::uint64_t>(chunk), Kind::gather};
}

template <typename List>
decltype(auto) at(const List& list, int index) {
  return list[static_cast<std::size_t>(index)];
}

}  // namespace

std::string Step::text() const {
  return fmt::format("node {}, rank {}: {}", node, local,
                     launch ? text_of(*launch) : "copies in by the host");
}

World::World(Setup setup) : setup_(std::move(setup)) {
  for (const int count : setup_.ranks) {
    Node& node = nodes_.emplace_back();
    node.ring = std::vector<LaunchLog::Word>(setup_.words);
    for (int local = 0; local < count; ++local) {
      node.ranks.emplace_back().log.emplace_back(node.ring, local == 0);
    }
  }
}

/// The copy has logs of its own, in which the ranks make the same launches again, side by side, so
/// that none is overrun.
World::World(const World& other) : World(other.setup_) {
  most_open_ = other.most_open_;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    std::vector<Rank>& ranks = nodes_[n].ranks;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const Rank& like = other.nodes_[n].ranks[r];
      ranks[r].launches = like.launches;
      ranks[r].over = like.over;
      ranks[r].copied_in = like.copied_in;
      ranks[r].reduced = like.reduced;
      ranks[r].copied_out = like.copied_out;
    }
    for (std::size_t i = 0; i < ranks[0].launches.size(); ++i) {
      for (Rank& rank : ranks) {
        if (rank.launches.size() > i) note_in_log(rank, rank.launches[i]);
      }
    }
  }
}

void World::note_in_log(Rank& rank, Launch launch) const {
  if (rank.log[0].is_first()) {
    rank.log[0].append(launch);
  } else if (setup_.fault != Setup::Fault::own_order) {
    rank.log[0].advance();
  }
}

int World::lanes() const {
  return *std::min_element(setup_.ranks.begin(), setup_.ranks.end());
}

bool World::is_by_host(int node, int chunk) const {
  return !setup_.by_host.empty() && at(at(setup_.by_host, node), chunk);
}

bool World::is_empty(int chunk, int local) const {
  if (local >= lanes()) return true;
  return !setup_.empty.empty() && at(at(setup_.empty, chunk), local);
}

int World::least(const Node& node, int Rank::*flag) const {
  int least = setup_.chunks;
  for (const Rank& rank : node.ranks) least = std::min(least, rank.*flag);
  return least;
}

bool World::is_slot_free(const Node& node, int Rank::*flag, int chunk) const {
  return least(node, flag) > chunk - setup_.slots;
}

bool World::has_launched(const Rank& rank, Launch launch) const {
  return std::find(rank.launches.begin(), rank.launches.end(), launch) != rank.launches.end();
}

bool World::is_over(const Rank& rank, Launch launch) const {
  const auto end = rank.launches.begin() + static_cast<std::ptrdiff_t>(rank.over);
  return std::find(rank.launches.begin(), end, launch) != end;
}

bool World::is_summed(int node, int local, int chunk) const {
  const Node& here = at(nodes_, node);
  if (!is_by_host(node, chunk)) return is_over(at(here.ranks, local), scatter(chunk));
  return least(here, &Rank::copied_in) > chunk && is_slot_free(here, &Rank::copied_out, chunk);
}

bool World::is_exchanged(int node, int local, int chunk) const {
  if (!is_summed(node, local, chunk)) return false;
  if (is_empty(chunk, local)) return true;
  for (int other = 0; other < static_cast<int>(nodes_.size()); ++other) {
    if (!is_summed(other, local, chunk)) return false;
  }
  return true;
}

bool World::has_input(int node, int local, int chunk) const {
  if (setup_.behind.empty()) return true;
  const int before = at(at(setup_.behind, local), chunk);
  return before == chunk || at(at(nodes_, node).ranks, local).copied_out > before;
}

bool World::is_ready(int node, int local, Launch launch) const {
  const Node& here = at(nodes_, node);
  const Rank& rank = at(here.ranks, local);
  const auto chunk = static_cast<int>(launch.chunk);
  if (has_launched(rank, launch) || is_by_host(node, chunk)) return false;
  if (launch.kind == Kind::scatter) {
    return has_input(node, local, chunk) &&
           (setup_.fault == Setup::Fault::no_slots || is_slot_free(here, &Rank::copied_out, chunk));
  }
  if (setup_.fault == Setup::Fault::early_gather) return is_summed(node, local, chunk);
  return is_exchanged(node, local, chunk);
}

/// Whether the node's first rank may append the launch.
bool World::may_append(int node, Launch launch) const {
  if (setup_.fault == Setup::Fault::first_alone) return is_ready(node, 0, launch);
  for (int local = 0; local < at(setup_.ranks, node); ++local) {
    if (!is_ready(node, local, launch)) return false;
  }
  return true;
}

/// Whether the launch that the rank's stream has come to is over.
bool World::ends_launch(int node, int local) const {
  const Node& here = at(nodes_, node);
  const Rank& rank = at(here.ranks, local);
  if (rank.over == rank.launches.size()) return false;
  const Launch launch = rank.launches[rank.over];
  const auto chunk = static_cast<int>(launch.chunk);
  const bool gathers = launch.kind == Kind::gather;
  if (gathers && !is_exchanged(node, local, chunk)) return false;
  for (int peer = 0; peer < static_cast<int>(here.ranks.size()); ++peer) {
    const bool receives = !is_empty(chunk, gathers ? peer : local);
    const bool sends = !is_empty(chunk, gathers ? local : peer);
    if (peer == local || !(receives || (sends && setup_.sends_wait))) continue;
    const Rank& other = at(here.ranks, peer);
    const bool has_come = other.over >= rank.over && other.launches.size() > rank.over;
    if (!has_come) return false;
    if (gathers && !is_exchanged(node, peer, chunk)) return false;
  }
  return true;
}

bool World::raise_flags(int node, int local) {
  Rank& rank = nodes_[static_cast<std::size_t>(node)].ranks[static_cast<std::size_t>(local)];
  bool raised = false;
  const auto raise = [&](int Rank::*flag, const auto& may_pass) {
    while (rank.*flag < setup_.chunks && may_pass(rank.*flag)) {
      ++(rank.*flag);
      raised = true;
    }
  };
  raise(&Rank::copied_in,
        [&](int chunk) { return !is_by_host(node, chunk) && is_over(rank, scatter(chunk)); });
  raise(&Rank::reduced, [&](int chunk) { return is_exchanged(node, local, chunk); });
  raise(&Rank::copied_out, [&](int chunk) {
    return is_by_host(node, chunk) ? least(at(nodes_, node), &Rank::reduced) > chunk
                                   : is_over(rank, gather(chunk));
  });
  return raised;
}

/// Lets everything happen that can, until the next step of a rank.
void World::settle() {
  for (bool moved = true; moved;) {
    moved = false;
    for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
      for (int local = 0; local < at(setup_.ranks, node); ++local) {
        Rank& rank = nodes_[static_cast<std::size_t>(node)].ranks[static_cast<std::size_t>(local)];
        if (ends_launch(node, local)) {
          ++rank.over;
          moved = true;
        }
        moved |= raise_flags(node, local);
      }
    }
  }
}

void World::add_launches(int node, int local, std::vector<Step>& steps) const {
  for (int chunk = 0; chunk < setup_.chunks; ++chunk) {
    for (const Launch launch : {scatter(chunk), gather(chunk)}) {
      if (local == 0 ? may_append(node, launch) : is_ready(node, local, launch)) {
        steps.push_back({node, local, launch});
      }
    }
  }
}

std::vector<Step> World::steps() const {
  std::vector<Step> steps;
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
    const Node& here = at(nodes_, node);
    for (int local = 0; local < at(setup_.ranks, node); ++local) {
      const Rank& rank = at(here.ranks, local);
      const int chunk = rank.copied_in;
      if (chunk < setup_.chunks && is_by_host(node, chunk) && has_input(node, local, chunk) &&
          is_slot_free(here, &Rank::reduced, chunk)) {
        steps.push_back({node, local, std::nullopt});
      }
      if (local == 0 || setup_.fault == Setup::Fault::own_order) {
        add_launches(node, local, steps);
        continue;
      }
      const auto next = rank.log[0].next();
      if (!next) continue;
      if (is_ready(node, local, *next)) {
        steps.push_back({node, local, next});
      } else if (setup_.fault == Setup::Fault::none) {
        throw Violation{"a launch is in the log for which not all ranks are ready"};
      }
    }
  }
  return steps;
}

void World::take(const Step& step) {
  Node& node = nodes_[static_cast<std::size_t>(step.node)];
  Rank& rank = node.ranks[static_cast<std::size_t>(step.local)];
  if (!step.launch) {
    ++rank.copied_in;
  } else {
    note_in_log(rank, *step.launch);
    rank.launches.push_back(*step.launch);
    compare_orders(node, rank);
    const std::size_t first = node.ranks[0].launches.size();
    for (const Rank& other : node.ranks) {
      // The first rank is behind only if there is a fault.
      most_open_ = std::max(most_open_, first - std::min(first, other.launches.size()));
    }
  }
  settle();
}

/// The rank's last launch must be the same on all ranks that have come to it.
void World::compare_orders(const Node& node, const Rank& rank) const {
  const std::size_t number = rank.launches.size() - 1;
  for (const Rank& other : node.ranks) {
    if (other.launches.size() <= number || other.launches[number] == rank.launches[number]) {
      continue;
    }
    throw Violation{fmt::format("launch {} of a node is {} on one rank, {} on another", number + 1,
                                text_of(rank.launches[number]), text_of(other.launches[number]))};
  }
}

void World::check_end() const {
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    for (std::size_t r = 0; r < nodes_[n].ranks.size(); ++r) {
      const int done = nodes_[n].ranks[r].copied_out;
      if (done == setup_.chunks) continue;
      throw Violation{fmt::format("all wait: node {}, rank {} is done with {} chunks", n, r, done)};
    }
  }
}

std::string World::mark() const {
  std::string mark;
  for (const Node& node : nodes_) {
    for (const Rank& rank : node.ranks) {
      for (const Launch launch : rank.launches) {
        mark += static_cast<char>('a' + 2 * launch.chunk + static_cast<unsigned>(launch.kind));
      }
      mark += static_cast<char>('0' + rank.copied_in);
    }
    mark += '|';
  }
  return mark;
}

}  // namespace tutti::shm::test
