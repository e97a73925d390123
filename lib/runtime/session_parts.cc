#include "runtime/session_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "base/names.h"
#include "base/pages.h"
#include "base/thread.h"
#include "control/agree.h"
#include "control/segment.h"
#include "runtime/agreement.h"
#include "runtime/coordinator_responder.h"
#include "runtime/footprint.h"
#include "tutti/error.h"

namespace tutti::runtime {
namespace {

constexpr std::size_t secret_bytes = 32;

std::size_t machine_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * base::page_bytes();
}

/// A part that moves holds up a more urgent tensor, and between nodes it does so for longer. There
/// the next part already moves while a part ends, so small parts cost less. A training step with
/// ResNet-50's gradients over two hosts at 1 Gbit/s reached 98.4 to 98.9 % of the speed that the
/// links allow with parts of 512 KiB, and 97.6 to 98.4 % with parts of 1 MiB. Over eight hosts it
/// reached 94 to 96 % with either, and 88 % with parts of 4 MiB.
///
/// On one node the pipeline runs empty at each end of a part, so parts are larger. One batch moves
/// at a time there, so a second open gate would only hold up a more urgent tensor.
coordinator::Settings protocol_of(const Options& options, const topology::Topology& topology) {
  const bool several_nodes = topology.node_count() > 1;
  constexpr std::size_t mib = std::size_t{1} << 20;
  coordinator::Settings settings;
  settings.replay = options.replay;
  settings.host.fusion_bytes = options.fusion_bytes.value_or(several_nodes ? mib : 2 * mib);
  settings.host.part_bytes = options.part_bytes.value_or(several_nodes ? mib / 2 : 4 * mib);
  settings.device.fusion_bytes = options.fusion_bytes.value_or(8 * mib);
  settings.device.part_bytes = options.part_bytes.value_or(32 * mib);
  settings.most_open = several_nodes ? shm::most_open : shm::most_open - 1;
  settings.stall_report_after = options.stall_report_after;
  settings.key_timeout = options.key_timeout;
  return settings;
}

/// All ranks must cut data to the same size, so this takes the smallest cache of all ranks. It
/// counts all processors on which ranks of this node may run, whether or not each rank is bound to
/// some of them.
collective::Machine agreed_machine(const World& world, const topology::Topology& topology) {
  const auto all =
      world.all_gather(fmt::format("{} {}", world.cache_bytes, fmt::join(world.processors, " ")),
                       "every rank to tell of its cache and processors");
  std::size_t cache_bytes = world.cache_bytes;
  std::set<int> processors;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream words(all[rank]);
    std::size_t bytes = 0;
    words >> bytes;
    cache_bytes = std::min(cache_bytes, bytes);
    if (topology.node_of[rank] != topology.node()) continue;
    processors.insert(std::istream_iterator<int>(words), {});
  }
  return {cache_bytes, static_cast<int>(processors.size())};
}

/// Advice for the case that a segment finds no room.
std::string remedy(const Options& options) {
  if (options.slice_bytes == 0) return {};
  return fmt::format("lower Options.slice_bytes (TUTTI_SLICE_BYTES), which is {}, ",
                     base::bytes_text(options.slice_bytes));
}

std::string new_secret() {
  std::string secret(secret_bytes, '\0');
  base::check(::sodium_init() >= 0, "libsodium starts");
  ::randombytes_buf(secret.data(), secret.size());
  return secret;
}

}  // namespace

std::unique_ptr<SessionParts> SessionParts::open(World world, const Options& options,
                                                 OnLoss on_loss) {
  base::set_log_rank(world.world_rank());
  std::unique_ptr<SessionParts> parts(new SessionParts(std::move(world)));
  try {
    parts->open_all(options, std::move(on_loss));
  } catch (...) {
    // Freeing the communicators would wait for a rank that is not there.
    parts->leave_communicators();
    throw;
  }
  return parts;
}

void SessionParts::open_all(const Options& options, OnLoss on_loss) {
  compare_ranks(options);
  open_control(options, std::move(on_loss));
  open_communicators();
  open_memory(options);
  open_timeline(options);
}

void SessionParts::compare_ranks(const Options& options) {
  const auto facts = facts_to_agree_on(options);
  check_equal(facts, world_.all_gather(pack(facts), "every rank to create its store"));
}

void SessionParts::agree(const std::string& what, const std::function<void()>& step) {
  bool all_know = false;
  const auto gather = [&](std::string mine) {
    auto all = world_.all_gather(std::move(mine), "every rank to " + what);
    all_know = true;
    return all;
  };
  const auto say_who = [&] {
    try {
      step();
    } catch (const Error& error) {
      throw base::reworded(
          error, fmt::format("rank {} could not {}: {}", world_.rank, what, error.what()));
    }
    return std::string();
  };
  try {
    control::agree(gather, say_who);
  } catch (const Error&) {
    // All ranks know of the failure and leave, so no rank may take the end of another one for a
    // loss.
    if (all_know) control_->announce_departed();
    throw;
  }
}

void SessionParts::open_control(const Options& options, OnLoss on_loss) {
  control::ControlSettings settings;
  settings.interface = options.interface;
  settings.encrypts = options.encrypt;
  settings.heartbeat_timeout = options.heartbeat_timeout;
  settings.create_timeout = options.create_timeout;
  settings.map = world_.map;
  if (world_.lookout) {
    world_.lookout->report_to(on_loss);
    settings.look = [lookout = world_.lookout] { lookout->look(); };
  }
  settings.on_loss = std::move(on_loss);
  const bool first = world_.rank == 0;
  settings.secret = world_.all_gather(first ? new_secret() : "", "rank 0's job secret").front();
  const auto gather = [this](std::string mine) {
    return world_.all_gather(std::move(mine), "every rank to find its node");
  };
  const auto make_responder = [&](const topology::Topology& topology) {
    return std::make_unique<CoordinatorResponder>(topology.size, protocol_of(options, topology));
  };
  control_ =
      control::ControlPlane::open(world_.rank, world_.size, gather, settings, make_responder);
  // From now on the control plane also tells of ranks on other nodes.
  if (world_.lookout) world_.lookout->also_ask([this] { return control_->lost_rank(); });
  protocol_ = protocol_of(options, topology());
  mpi::check_thread_level(topology().node_count(), options.user_makes_no_mpi_calls);
}

void SessionParts::open_communicators() {
  if (topology().node_count() == 1) return;
  data_ = world_.duplicate();
  gate_ = world_.duplicate();
}

void SessionParts::open_memory(const Options& options) {
  machine_ = agreed_machine(world_, topology());
  tuning_ = collective::Tuning::choose(topology(), options.slice_bytes, machine_);
  const shm::NodeMemory::Layout layout = tuning_.layout(topology());
  const std::size_t segment_size = layout.bytes();
  const std::size_t arena_size =
      arena_bytes(machine_bytes(), topology().local_size(), !world_.world_ranks.empty());
  base::Fd segment;
  base::Fd device_staging;
  base::Fd pairs;
  agree("reserve shared memory", [&] {
    arena_ = shm::Arena::create(arena_size, mapper(), machine_bytes());
    segment = base::create_memory_file("segment", segment_size);
    device_staging = base::create_memory_file(
        "device staging", DeviceSide::Staging::bytes(tuning_.device_layout(topology())));
    pairs = base::create_memory_file("pairs", p2p::PairMemory::bytes(topology().local_size()));
    if (!topology().is_leader()) return;
    // One rank checks for all ranks, because each rank alone would find room for its own part.
    base::check_available(segment_size, remedy(options));
    base::reserve(pairs, 0, p2p::PairMemory::head_bytes(topology().local_size()));
  });
  std::vector<base::Fd> arenas;
  std::vector<base::Fd> segments;
  std::vector<base::Fd> device_stagings;
  std::vector<base::Fd> all_pairs;
  agree("pass shared memory on", [&] {
    arenas = control_->share(arena_->file());
    segments = control_->share(segment);
    device_stagings = control_->share(device_staging);
    all_pairs = control_->share(pairs);
  });
  agree("reserve and map shared memory", [&] {
    for (const auto& extent : layout.extents_of(topology().local_index())) {
      base::reserve(segments.front(), extent.begin, extent.bytes);
    }
    map_memory(layout, segments.front(), arenas);
    open_peers(std::move(all_pairs.front()));
    engine_ = std::make_unique<collective::Engine>(topology(), *memory_, data_.get(), gate_.get(),
                                                   tuning_);
  });
  open_device(std::move(device_stagings.front()), options);
}

void SessionParts::open_device(base::Fd staging, const Options& options) {
  const std::vector<base::Doorbell*> doorbells(control_->doorbells().begin(),
                                               control_->doorbells().end());
  device_ =
      std::make_unique<DeviceSide>(DeviceSide::Staging{.file = std::move(staging),
                                                       .layout = tuning_.device_layout(topology()),
                                                       .local_index = topology().local_index(),
                                                       .doorbells = doorbells,
                                                       .map = mapper(),
                                                       .node = {.ranks = topology().local_ranks(),
                                                                .lanes = topology().lanes(),
                                                                .limit = options.create_timeout}},
                                   tuning_, options.gpu);
}

base::Mapper SessionParts::mapper() {
  return [this](const base::Fd& file, std::size_t bytes) {
    std::shared_ptr<base::Mapping> mapping = world_.map(file, bytes);
    if (data_) data_->hold(mapping);
    return mapping;
  };
}

void SessionParts::open_peers(base::Fd memory) {
  peer_side_ = std::make_unique<PeerSide>(
      topology(),
      PeerSide::Memory{.file = std::move(memory),
                       .map = world_.map,
                       .doorbells = {control_->doorbells().begin(), control_->doorbells().end()}},
      p2p::BetweenNodes{.communicator = topology().node_count() > 1 ? world_.lasting : nullptr,
                        .store = world_.creation_number},
      protocol_.key_timeout, [this](int rank) { return control_->is_closing(rank); });
}

void SessionParts::map_memory(const shm::NodeMemory::Layout& layout, const base::Fd& segment,
                              const std::vector<base::Fd>& arenas) {
  const base::Mapper map = mapper();
  segment_ = map(segment, layout.bytes());
  std::vector<std::span<std::byte>> views;
  for (std::size_t local = 0; local < arenas.size(); ++local) {
    if (static_cast<int>(local) == topology().local_index()) {
      views.push_back(arena_->span());
    } else {
      views.push_back(peers_.emplace_back(map(arenas[local], arena_->span().size()))->span());
    }
  }
  memory_ = std::make_unique<shm::NodeMemory>(segment_->span(), layout, topology().local_index(),
                                              control_->doorbells(), std::move(views));
}

void SessionParts::open_timeline(const Options& options) {
  timeline_files_ = TimelineFiles::open(world_, topology(), options);
  const std::size_t capacity = timeline_files_ ? observe::Timeline::usual_capacity : 0;
  timeline_ = std::make_unique<observe::Timeline>(capacity);
  if (timeline_->is_on()) engine_->record_in(*timeline_);
}

base::Doorbell& SessionParts::bell() {
  return *control_->doorbells()[static_cast<std::size_t>(topology().local_index())];
}

Tensor SessionParts::allocate(const Shape& shape, DType dtype) {
  return {arena_->allocate(shape.count() * size_of(dtype)), shape, dtype};
}

std::size_t SessionParts::segment_bytes() const {
  return segment_share(segment_->size(), topology()) +
         segment_share(control::Segment::bytes(topology().local_size(), topology().size),
                       topology());
}

void SessionParts::on_mpi_finalise(std::function<void()> stop) {
  // A store over all ranks of the job has no such list.
  const std::string ranks = fmt::format("{}", fmt::join(world_.world_ranks, ","));
  stop_hook_ = stop ? std::make_unique<mpi::StopHook>(std::move(stop), ranks) : nullptr;
}

void SessionParts::leave_communicators() {
  if (data_) data_->abandon();
  if (gate_) gate_->abandon();
}

void SessionParts::abandon_mpi(bool told) {
  leave_communicators();
  if (world_.duplicate) mpi::abandon(told);
}

void SessionParts::wait_for_followers(std::chrono::milliseconds notice_after,
                                      std::chrono::milliseconds limit) {
  const auto start = base::Clock::now();
  for (auto wait = notice_after;; wait *= 2) {
    const auto until = std::min(base::Clock::now() + wait, start + limit);
    const std::vector<int> here = control_->wait_for_followers(until);
    if (here.empty() || control_->lost_rank()) return;
    base::log().warn(
        "closing the store waits for rank{} {} to close theirs, whose messages go "
        "through this process",
        here.size() > 1 ? "s" : "", fmt::join(here, ", "));
    if (base::Clock::now() >= start + limit) return;
  }
}

void SessionParts::write_timeline(bool lost) {
  if (!timeline_files_) return;
  timeline_files_->write_part(*timeline_);
  if (lost) timeline_files_->leave_part();
}

void SessionParts::merge_timeline() {
  if (timeline_files_ && world_.rank == 0) timeline_files_->merge();
}

void SessionParts::abandon_in_child() {
  control_->abandon_in_child();
}

std::uint64_t SessionParts::control_messages() const {
  const auto counters = control_->counters();
  return counters.sent + counters.received;
}

void SessionParts::close() {
  // The peer side goes first, because it rings the control plane's doorbells.
  peer_side_.reset();
  control_.reset();
  engine_.reset();
  // The device side is closed and not destroyed, because a thread of the program may be about to
  // submit a call.
  if (device_) device_->close();
  gate_.reset();
  data_.reset();
}

}  // namespace tutti::runtime
