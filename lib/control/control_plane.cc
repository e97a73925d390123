#include "control/control_plane.h"

#include <fmt/format.h>

#include <atomic>
#include <numeric>
#include <utility>

#include "base/failure.h"
#include "control/agree.h"
#include "control/hub.h"
#include "control/link.h"
#include "control/rendezvous.h"
#include "tutti/error.h"

namespace tutti::control {
namespace {

std::shared_ptr<base::Mapping> map(const ControlSettings& settings, const base::Fd& file,
                                   const topology::Topology& topology) {
  const std::size_t bytes = Segment::bytes(topology.local_size(), topology.size);
  if (settings.map) return settings.map(file, bytes);
  return std::make_shared<base::Mapping>(file, bytes);
}

std::vector<int> followers(const topology::Topology& topology) {
  if (topology.rank == 0) {
    std::vector<int> everybody(static_cast<std::size_t>(topology.size));
    std::iota(everybody.begin(), everybody.end(), 0);
    return everybody;
  }
  return topology.is_leader() ? topology.local_ranks() : std::vector<int>();
}

/// Closes the planes after a failure that every rank knows of. A rank that could not open its own
/// plane may end at once, and the threads of the other ranks would then take it for lost. So all
/// ranks stop their threads before any rank goes on.
void close_together(std::unique_ptr<ControlPlane> plane, const AllGather& gather) {
  if (plane != nullptr) plane->announce_departed();
  plane.reset();
  try {
    gather({});
  } catch (const Error&) {
    // The caller hears only of the first error.
  }
}

}  // namespace

std::unique_ptr<ControlPlane> ControlPlane::open(int rank, int size, const AllGather& gather,
                                                 const ControlSettings& settings,
                                                 const MakeResponder& make_responder) {
  Company company = find_company(rank, size, gather, settings);
  std::unique_ptr<ControlPlane> plane;
  bool all_know = false;
  const auto gather_once = [&](std::string mine) {
    auto all = gather(std::move(mine));
    all_know = true;
    return all;
  };
  try {
    agree(gather_once, [&] {
      plane.reset(new ControlPlane(std::move(company), settings, make_responder));
      return std::string();
    });
  } catch (const Error&) {
    if (all_know) close_together(std::move(plane), gather);
    throw;
  }
  return plane;
}

ControlPlane::ControlPlane(Company company, const ControlSettings& settings,
                           const MakeResponder& make_responder)
    : topology_(std::move(company.topology)),
      create_timeout_(settings.create_timeout),
      look_(settings.look),
      node_(std::move(company.node)),
      segment_(map(settings, company.segment, topology_), topology_.local_size(), topology_.size),
      collector_bell_(std::move(company.collector), segment_.collector_sleeps()),
      link_bell_(net::EpollBell::make_descriptor(), link_sleeps_),
      board_(segment_, collector_bell_, settings.on_loss),
      departures_(topology_.size),
      up_(segment_.up(topology_.local_index())),
      down_(segment_.down(topology_.local_index())) {
  for (int i = 0; i < topology_.local_size(); ++i) doorbells_.push_back(&segment_.slot(i).bell);
  start_threads(std::move(company), make_responder);
}

ControlPlane::~ControlPlane() = default;

void ControlPlane::start_threads(Company company, const MakeResponder& make_responder) {
  const bool has_uplink = topology_.is_leader() && topology_.rank != 0;
  std::optional<net::ProvenPeer> rank0;
  if (has_uplink) {
    rank0 = std::move(company.links.front());
  } else if (topology_.rank == 0) {
    hub_ = std::make_unique<Hub>(Hub::Parts{topology_, segment_, board_, collector_bell_,
                                            departures_, company.heartbeat,
                                            std::move(company.links), make_responder(topology_)});
  }
  link_ = std::make_unique<Link>(
      Link::Parts{topology_, segment_, board_, has_uplink ? collector_bell_ : link_bell_,
                  departures_, std::move(company.processes), company.heartbeat, std::move(rank0)});
}

bool ControlPlane::receive(net::Bytes& message) {
  if (up_.backlog_bytes() > 0) {
    if (up_.flush()) collector_bell_.ring();
    note_backlog();
  }
  // Takes complete messages first, because reading more from the ring moves them in memory.
  bool there = down_.next(message);
  while (!there && down_.has_more()) {
    if (down_.take_in()) collector_bell_.ring();
    there = down_.next(message);
  }
  if (there) received_.fetch_add(1, std::memory_order_relaxed);
  return there;
}

void ControlPlane::announce_departed() {
  segment_.slot(topology_.local_index()).departed.store(1);
  collector_bell_.ring();
}

void ControlPlane::announce_closing() {
  segment_.closing(topology_.rank).store(1);
  collector_bell_.ring();
  for (base::Doorbell* const bell : doorbells_) bell->ring();
}

bool ControlPlane::is_closing(int rank) const {
  return segment_.closing(rank).load() != 0;
}

std::string ControlPlane::describe() const {
  const auto loss = lost_rank();
  return fmt::format(
      "control: {} messages sent, {} received, {} bytes wait for room; {}", counters().sent,
      counters().received, backlog_.load(),
      loss ? fmt::format("rank {} is lost: {}", loss->rank, loss->reason) : "no rank is lost");
}

std::vector<base::Fd> ControlPlane::share(const base::Fd& mine) {
  base::check(node_ != nullptr, "no rank shares anything once that has failed");
  try {
    return node_->exchange(mine, {base::Clock::now() + create_timeout_, look_, creation});
  } catch (...) {
    // The other ranks see the closed sockets at once, and do not wait.
    node_.reset();
    throw;
  }
}

void ControlPlane::send(net::ConstBytes message) {
  sent_.fetch_add(1, std::memory_order_relaxed);
  if (up_.send(message)) collector_bell_.ring();
  note_backlog();
}

std::optional<FailedRank> ControlPlane::lost_rank() const {
  return board_.has_loss() ? board_.get() : std::nullopt;
}

std::vector<int> ControlPlane::wait_for_followers(base::Clock::time_point deadline) {
  return departures_.wait(followers(topology_), deadline);
}

ControlPlane::Counters ControlPlane::counters() const {
  return {sent_.load(std::memory_order_relaxed), received_.load(std::memory_order_relaxed)};
}

void ControlPlane::abandon_in_child() {
  link_->abandon();
  if (hub_) hub_->abandon();
}

}  // namespace tutti::control
