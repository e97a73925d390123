#include "member.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "base/failure.h"

using namespace std::chrono_literals;
using namespace tutti;

namespace {

constexpr auto limit = 60s;
constexpr std::size_t arena_bytes = std::size_t{1} << 28;

}  // namespace

Member::Member(const std::vector<int>& leader_of, const collective::Tuning& tuning)
    : data_(mpi::Communicator::world(limit)),
      gate_(mpi::Communicator::world(limit)),
      topology_(topology::make_topology(data_.rank(), leader_of)),
      arena_(shm::Arena::create(arena_bytes, base::map_file)) {
  const auto layout = tuning.layout(topology_);
  own_bell_ = base::create_memory_file("bell", sizeof(base::Doorbell));
  own_segment_ = base::create_memory_file("segment", layout.bytes());
  bells_ = share(own_bell_, sizeof(base::Doorbell));
  segments_ = share(own_segment_, layout.bytes());
  arenas_ = share(arena_->file(), arena_bytes);
  meet();
  const std::vector<base::Doorbell*> bells = doorbells();
  std::vector<std::span<std::byte>> arenas;
  for (std::size_t local = 0; local < bells_.size(); ++local) {
    const bool own = static_cast<int>(local) == topology_.local_index();
    arenas.push_back(own ? arena_->span() : arenas_[local]->span());
  }
  memory_ = std::make_unique<shm::NodeMemory>(segments_.front()->span(), layout,
                                              topology_.local_index(), bells, std::move(arenas));
  const bool several = topology_.node_count() > 1;
  engine_ = std::make_unique<collective::Engine>(topology_, *memory_, several ? &data_ : nullptr,
                                                 several ? &gate_ : nullptr, tuning);
  base::Doorbell& bell = *bells[static_cast<std::size_t>(topology_.local_index())];
  driver_ = std::make_unique<Driver>(*engine_, bell, true);
}

std::vector<base::Doorbell*> Member::doorbells() const {
  std::vector<base::Doorbell*> bells;
  for (const File& bell : bells_) {
    bells.push_back(reinterpret_cast<base::Doorbell*>(bell->data()));
  }
  return bells;
}

void Member::share_device_memory(const collective::Tuning& tuning) {
  const auto layout = tuning.device_layout(topology_);
  own_device_segment_ = base::create_memory_file("device segment", layout.bytes());
  const std::size_t board_bytes = shm::GroupBoard::bytes(layout.local_size, layout.slots);
  own_board_ = base::create_memory_file("board", board_bytes);
  device_segments_ = share(own_device_segment_, layout.bytes());
  boards_ = share(own_board_, board_bytes);
  meet();
  const std::vector<std::span<std::byte>> no_arenas(static_cast<std::size_t>(layout.local_size));
  device_memory_ = std::make_unique<shm::NodeMemory>(
      device_segments_.front()->span(), layout, topology_.local_index(), doorbells(), no_arenas);
}

shm::GroupBoard Member::board() const {
  return {boards_.front()->span(), topology_.local_size(), topology_.local_index(),
          device_layout().slots};
}

void Member::meet() const {
  gate_.all_gather("", limit, "the other ranks");
}

std::vector<Member::File> Member::share(const base::Fd& mine, std::size_t bytes) const {
  const auto paths =
      gate_.all_gather(fmt::format("/proc/{}/fd/{}", ::getpid(), mine.get()), limit, "all files");
  std::vector<File> files;
  for (const int rank : topology_.local_ranks()) {
    const std::string& path = paths[static_cast<std::size_t>(rank)];
    const base::Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file) throw base::system_failure("open " + path);
    files.push_back(base::map_file(file, bytes));
  }
  return files;
}
