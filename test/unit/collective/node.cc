#include "node.h"

#include <exception>
#include <thread>

#include "base/mutex.h"

using namespace tutti;

Node::Node(int ranks, const collective::Tuning& tuning,
           const std::vector<collective::Grouping*>& groupings)
    : bells_(static_cast<std::size_t>(ranks)) {
  const std::vector<int> leader_of(static_cast<std::size_t>(ranks), 0);
  std::vector<base::Doorbell*> bells;
  std::vector<std::span<std::byte>> arenas;
  for (int rank = 0; rank < ranks; ++rank) {
    topologies_.push_back(topology::make_topology(rank, leader_of));
    bells.push_back(&bells_[static_cast<std::size_t>(rank)]);
    arenas_.push_back(shm::Arena::create(std::size_t{1} << 28, base::map_file));
    arenas.push_back(arenas_.back()->span());
  }
  const auto layout = tuning.layout(topologies_[0]);
  segment_file_ = base::create_memory_file("test", layout.bytes());
  segment_ = base::Mapping(segment_file_, layout.bytes());
  const auto own_layout = tuning.device_layout(topologies_[0]);
  own_file_ = base::create_memory_file("test of ends", own_layout.bytes());
  own_segment_ = base::Mapping(own_file_, own_layout.bytes());
  const std::vector<std::span<std::byte>> no_arenas(arenas.size());
  for (int rank = 0; rank < ranks; ++rank) {
    memories_.emplace_back(segment_.span(), layout, rank, bells, arenas);
    engines_.emplace_back(topologies_[static_cast<std::size_t>(rank)], memories_.back(), nullptr,
                          nullptr, tuning);
    own_memories_.emplace_back(own_segment_.span(), own_layout, rank, bells, no_arenas);
    engines_.back().open_own_staging(
        own_memories_.back(),
        groupings.empty() ? nullptr : groupings[static_cast<std::size_t>(rank)]);
    drivers_.emplace_back(engines_.back(), *bells[static_cast<std::size_t>(rank)], true);
  }
}

void Node::run(const std::function<void(Rank&)>& body) {
  base::Mutex mutex{8};
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    threads.emplace_back([&, i] {
      Rank rank{static_cast<int>(i), engines_[i], drivers_[i], *arenas_[i], std::mt19937_64(i)};
      try {
        body(rank);
      } catch (...) {
        const base::Lock lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}
