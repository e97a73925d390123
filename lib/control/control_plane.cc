#include "control/control_plane.h"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "control/coordinator_thread.h"
#include "control/link_thread.h"
#include "control/wake.h"

namespace tutti::control {
namespace {

/// Ranks of one job find each other by a name that nobody else can guess.
std::string socket_prefix(const std::string& secret) {
  unsigned char hash[16];
  crypto_generichash(hash, sizeof hash, reinterpret_cast<const unsigned char*>(secret.data()),
                     secret.size(), nullptr, 0);
  std::string name = "tutti-";
  for (const unsigned char byte : hash) name += fmt::format("{:02x}", byte);
  return name;
}

base::Fd own_pidfd() {
  base::Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!fd) throw base::system_failure("open a descriptor of this process");
  return fd;
}

constexpr auto greeting_time = std::chrono::seconds(2);

}  // namespace

std::unique_ptr<ControlPlane> ControlPlane::open(int rank, const AllGather& all_gather,
                                                 const Settings& settings) {
  const Deadline deadline = base::Clock::now() + settings.create_timeout;
  Node node(rank, socket_prefix(settings.secret), all_gather, deadline);
  std::unique_ptr<ControlPlane> plane(new ControlPlane(std::move(node), settings));
  plane->deadline_ = deadline;
  plane->open_node();
  plane->open_links(all_gather);
  plane->start_threads();
  return plane;
}

ControlPlane::ControlPlane(Node node, const Settings& settings)
    : settings_(settings), node_(std::move(node)) {}

std::vector<base::Fd> ControlPlane::share(const base::Fd& mine) {
  return node_.share(mine, deadline_);
}

void ControlPlane::open_node() {
  const auto ranks = static_cast<std::size_t>(topology().local_size());
  const std::size_t bytes = ranks * sizeof(Mailbox);
  const base::Fd mine = base::create_memory_file("control", bytes);
  if (topology().is_leader()) base::reserve(mine, 0, bytes);
  const auto segments = share(mine);
  segment_ = settings_.map(segments.front(), bytes);
  boxes_ = reinterpret_cast<Mailbox*>(segment_->data());
  for (std::size_t local = 0; local < ranks; ++local) doorbells_.push_back(&boxes_[local].doorbell);
  pidfds_ = share(own_pidfd());
  upward_ = std::move(share(make_wake()).front());
  writer_ = std::make_unique<RingWriter>(this->mine().up);
  reader_ = std::make_unique<RingReader>(this->mine().down);
}

void ControlPlane::open_links(const AllGather& all_gather) {
  if (topology().node_count() == 1) return;
  base::Fd listener;
  std::string where;
  if (topology().rank == 0) {
    int port = 0;
    const std::string address = address_of_interface(settings_.interface);
    listener = listen_tcp(address, port);
    where = fmt::format("{} {}", address, port);
  }
  where = all_gather(where).front();
  if (topology().rank == 0) {
    while (to_leaders_.size() + 1 < static_cast<std::size_t>(topology().node_count())) {
      base::Fd socket = accept_from(listener, deadline_, "the leaders of the other nodes");
      try {
        int rank = 0;
        Link link = Link::accept(std::move(socket), settings_.secret,
                                 base::Clock::now() + greeting_time, rank);
        to_leaders_.emplace_back(rank, std::move(link));
      } catch (const Error& error) {
        base::log().warn("a stranger connected to the control port: {}", error.what());
      }
    }
  } else if (topology().is_leader()) {
    const auto space = where.find(' ');
    base::Fd socket =
        connect_tcp(where.substr(0, space), std::stoi(where.substr(space + 1)), deadline_);
    to_rank_0_ = Link::connect(std::move(socket), topology().rank, settings_.secret, deadline_);
  }
  all_gather("linked");
}

void ControlPlane::start_threads() {
  if (topology().rank == 0) {
    coordinator_thread_ =
        std::make_unique<CoordinatorThread>(topology(), boxes_, upward_, std::move(to_leaders_),
                                            settings_.coordinator, settings_.heartbeat_timeout);
  }
  LinkThread::Duties duties;
  duties.boxes = boxes_;
  duties.pidfds = &pidfds_;
  duties.upward = &upward_;
  duties.to_rank_0 = std::move(to_rank_0_);
  duties.heartbeat_timeout = settings_.heartbeat_timeout;
  duties.on_loss = [this](int rank, const std::string& reason) { note_loss(rank, reason); };
  link_thread_ = std::make_unique<LinkThread>(topology(), std::move(duties));
}

ControlPlane::~ControlPlane() {
  link_thread_.reset();
  coordinator_thread_.reset();
}

void ControlPlane::send(std::span<const std::byte> message) {
  messages_.fetch_add(1, std::memory_order_relaxed);
  if (writer_->send(message)) wake(upward_);
}

bool ControlPlane::receive(std::vector<std::byte>& message) {
  // Room in the upward ring is announced by the same bell as mail.
  if (writer_->flush()) wake(upward_);
  const bool any = reader_->receive(message);
  if (reader_->writer_wants_waking()) wake(upward_);
  if (any) messages_.fetch_add(1, std::memory_order_relaxed);
  return any;
}

void ControlPlane::announce_departed() {
  mine().departed.store(1);
  wake(upward_);
}

std::optional<LostRank> ControlPlane::lost() const {
  if (!any_lost_.load(std::memory_order_acquire)) return std::nullopt;
  const base::Lock lock(mutex_);
  return lost_;
}

void ControlPlane::note_loss(int rank, const std::string& reason) {
  {
    const base::Lock lock(mutex_);
    if (!lost_) lost_ = LostRank{rank, reason};
  }
  any_lost_.store(true, std::memory_order_release);
  mine().doorbell.ring();
}

}  // namespace tutti::control
